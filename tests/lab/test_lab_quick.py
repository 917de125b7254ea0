"""What ``make lab-quick`` runs: computed, without starting a guest."""

from __future__ import annotations

import pytest

from tests.lab.harness import catalogue, image, quick, settings
from tests.lab.harness.debian import KERNELS
from tests.lab.harness.flavours import Flavour
from tests.lab.harness.settings import LabUnavailableError
from tests.lab.harness.snapshot import CGROUP_WORDS
from tests.lab.test_lab_catalogue import PAIRS

MOST_RUNS = 60
"""Ten minutes on two CPUs: nine seconds a run, with all around it; a run takes four where the host is quiet."""


@pytest.mark.parametrize("room", quick.ROOMS)
def test_every_room_is_shown(room: str) -> None:
    """A scenario of each room runs on the machine that it is dealt to."""
    shown = [
        name
        for kind, names in quick.cases()
        for name in names
        if name in quick.rooms_of(kind.topology.name).get(room, ())
    ]
    assert shown


def test_every_kernel_and_both_arrangements_of_cgroups_run() -> None:
    """One guest each."""
    assert {kind.kernel for kind, _ in quick.cases()} == set(KERNELS)
    assert {kind.cgroup for kind, _ in quick.cases()} == set(CGROUP_WORDS)


def test_every_test_exists() -> None:
    """Each is one of the whole lab's."""
    known = {f"{quick.FILE}::test_scenario[{one.id}]" for one in PAIRS}
    assert {test for test in quick.tests() if "[" in test} <= known


def test_it_is_short() -> None:
    """No more runs than ten minutes have room for."""
    runs = sum(1 + catalogue.count_faults(name, kind.topology.name) for kind, names in quick.cases() for name in names)
    assert runs <= MOST_RUNS


def test_systemd_is_left_out_where_its_image_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its guest is asked for only where it can start at once."""
    monkeypatch.setattr(image, "current", lambda _flavour: None)
    assert quick.SYSTEMD in quick.tests()

    def missing(_flavour: Flavour) -> image.Image:
        raise LabUnavailableError("no image")

    monkeypatch.setattr(image, "current", missing)
    assert quick.SYSTEMD not in quick.tests()


def test_two_guests_on_two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """One CPU has one guest, two have two, more have one for each two."""
    monkeypatch.delenv("PINPROOF_LAB_GUESTS", raising=False)
    found = {}
    for cpus in (1, 2, 3, 4, 8, 64):
        monkeypatch.setattr(settings.os, "sched_getaffinity", lambda _pid, cpus=cpus: set(range(cpus)))
        found[cpus] = settings.guests_at_once()
    assert found == {1: 1, 2: 2, 3: 2, 4: 2, 8: 4, 64: 32}
