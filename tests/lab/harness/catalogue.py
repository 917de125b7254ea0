"""The conformance catalogue, dealt out to the lab's machines: each scenario to the cheapest that all of it fits.

What fits is computed by the command's own rules from the machine's description (:mod:`sysfs`), so that a scenario or a
machine that is new finds its place by itself, and one that fits nowhere is noticed.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.lab.harness import sysfs
from tests.lab.harness.debian import KERNELS
from tests.lab.harness.snapshot import GuestKind
from tests.lab.harness.topology import CATALOGUE, QUAD, Topology
from toolkit.model import topology as model
from toolkit.model.scenario import Scenario
from toolkit.scenario_file import load_catalogue
from toolkit.session import conformance
from toolkit.session.planning.fitting import unmet, why_not

EVERYWHERE = ("strict-reservation", "quota-050-set", "exclusive-and-shared")
"""Run on every kernel and both arrangements of cgroups: which task may run where, how much, and the NUMA nodes of CPUs
and memory."""
EVERY_MACHINE = ("exclusive-and-shared",)
"""Run on every machine: reservation and quota do not depend on its shape, and have machines with every kernel."""
WINDOW_S = 2.0
"""The longest window: no scenario's rules need more. Most need less, and get no more than that (``brief``)."""
OTHERS = (
    *(GuestKind(topology=QUAD, kernel=kernel) for kernel in KERNELS if kernel != GuestKind().kernel),
    GuestKind(topology=QUAD, cgroup="hybrid"),
)
"""The guests that run nothing but these: a kernel or cgroups that the machines' own guests do not have."""


@functools.cache
def scenarios() -> dict[str, Scenario]:
    """Return the catalogue by name: what ``pinproof conformance --list`` tells of."""
    return {scenario.name: scenario for scenario in load_catalogue()}


@functools.cache
def machine(name: str) -> model.Topology:
    """Return a lab machine as the guest's reader should see it."""
    (topology,) = (one for one in CATALOGUE if one.name == name)
    with tempfile.TemporaryDirectory(prefix="pinproof-lab-") as folder:
        return sysfs.expected(topology, Path(folder))


@functools.cache
def fitting(name: str) -> tuple[str, ...]:
    """Return the scenarios that a lab machine can run."""
    return tuple(one.name for one in scenarios().values() if why_not(one, machine(name)) is None)


def count_faults(name: str, on: str) -> int:
    """Return how many of a scenario's faults fit a machine: each is a run of its own."""
    groups = conformance.fault_groups(scenarios()[name])
    return sum(unmet(group[0].requires, machine(on)) is None for group in groups)


@functools.cache
def dealt() -> dict[str, tuple[str, ...]]:
    """Return machine name -> its scenarios: where most of their faults fit, then where there are the fewest CPUs."""
    hands: dict[str, list[str]] = {topology.name: [] for topology in CATALOGUE}
    for name in scenarios():
        places = [topology for topology in CATALOGUE if name in fitting(topology.name)]
        if places:
            best = min(places, key=lambda one: (-count_faults(name, one.name), len(one.online_cpus)))
            hands[best.name].append(name)
    return {name: tuple(names) for name, names in hands.items()}


def chosen(topology: Topology, wanted: tuple[str, ...]) -> Iterator[str]:
    """Yield those of the wanted scenarios that a machine can run."""
    yield from (name for name in wanted if name in fitting(topology.name))


def kinds() -> list[tuple[GuestKind, tuple[str, ...]]]:
    """Every guest with its scenarios: what its machine was dealt, then what runs on all; then the other guests."""
    hands = dealt()
    found = []
    for topology in CATALOGUE:
        own = hands[topology.name]
        few = tuple(name for name in chosen(topology, EVERY_MACHINE) if name not in own)
        found.append((GuestKind(topology=topology), (*own, *few)))
    found += [(kind, tuple(chosen(kind.topology, EVERYWHERE))) for kind in OTHERS]
    return [(kind, names) for kind, names in found if names]
