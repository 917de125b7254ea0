"""``make lab-quick``: a cross-section of the lab, chosen by computation from the catalogue and the machines.

Each room of the catalogue is shown by a scenario that is dealt to one of as few machines as have all rooms, and each
guest of another kernel, or with other cgroups, runs the few scenarios that all of these run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tests.lab.harness import catalogue, flavours, image
from tests.lab.harness.settings import LabUnavailableError
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import BY_NAME
from toolkit.model.scenario import Scenario
from toolkit.session.planning.judged import judged

ROOMS: dict[str, Callable[[Scenario], bool]] = {
    "CPU options": lambda one: bool(one.kubelet.get("cpuManagerPolicyOptions")),
    "memory": lambda one: one.kubelet.get("memoryManagerPolicy") == "Static",
    "topology policy": lambda one: one.kubelet.get("topologyManagerPolicy", "none") != "none",
    "device": lambda one: bool(one.devices),
    "pod-level": lambda one: one.kubelet.get("featureGates", {}).get("PodLevelResourceManagers", False),
    "resize": lambda one: len(one.resizes) > len(one.rejected_resizes),
    "quota": lambda one: "quota" in judged(one),
}
"""What a kubelet decides, and which scenarios are about it; of resizes those of which one is done."""

FILE = "tests/lab/test_lab_catalogue.py"
WITHOUT_A_GUEST = (
    "tests/lab/test_lab_harness.py",
    *(
        f"{FILE}::{test}"
        for test in (
            "test_the_whole_catalogue_is_run",
            "test_every_broken_promise_is_run",
            "test_every_machine_and_kernel_runs_some",
        )
    ),
)
SYSTEMD = "tests/lab/test_lab_systemd.py::test_units_scopes_and_slices"
"""One test of the systemd guest, where that guest's image exists: building it takes longer than all of this."""


def rooms_of(machine: str) -> dict[str, tuple[str, ...]]:
    """Return room -> the scenarios that a machine was dealt for it, those with the fewest runs first."""
    hand = sorted(catalogue.dealt()[machine], key=lambda name: (catalogue.count_faults(name, machine), name))
    found = {room: tuple(name for name in hand if is_of(catalogue.scenarios()[name])) for room, is_of in ROOMS.items()}
    return {room: names for room, names in found.items() if names}


def machines() -> tuple[str, ...]:
    """Return the fewest machines that have all rooms; of several such sets the one with the fewest CPUs."""
    rooms = {name: set(rooms_of(name)) for name in BY_NAME}
    for size in range(1, len(BY_NAME) + 1):
        whole = [
            some for some in itertools.combinations(BY_NAME, size) if set().union(*map(rooms.get, some)) >= set(ROOMS)
        ]
        if whole:
            return min(whole, key=lambda some: sum(len(BY_NAME[name].online_cpus) for name in some))
    raise LabUnavailableError(f"no machines of the lab have all rooms of the catalogue: {', '.join(ROOMS)}")


def cases() -> list[tuple[GuestKind, tuple[str, ...]]]:
    """Return the guests with their scenarios: on each machine one scenario of each room that it has."""
    found = []
    for name in machines():
        some: list[str] = []
        for names in rooms_of(name).values():
            if not set(names) & set(some):
                some.append(names[0])
        found.append((GuestKind(topology=BY_NAME[name]), tuple(some)))
    return [*found, *(pair for pair in catalogue.kinds() if pair[0] in catalogue.OTHERS)]


def tests() -> list[str]:
    """Return what pytest is asked for."""
    asked = [*WITHOUT_A_GUEST]
    asked += [f"{FILE}::test_scenario[{kind}-{name}]" for kind, names in cases() for name in names]
    try:
        image.current(flavours.BY_NAME["systemd"])
    except LabUnavailableError:
        return asked
    return [*asked, SYSTEMD]
