"""What ``make lab-quick`` runs: computed, without starting a guest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.harness import catalogue, image, plugin, quick, settings
from tests.lab.harness.catalogue_pairs import PAIRS
from tests.lab.harness.debian import KERNELS
from tests.lab.harness.flavours import Flavour
from tests.lab.harness.settings import LabUnavailableError
from tests.lab.harness.snapshot import CGROUP_WORDS

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


def test_tests_that_share_a_guest_are_one_group() -> None:
    """Each guest of a file is one, whatever else is in the ids of its tests, and one for those that need none."""
    wanted = {f"{quick.FILE} {kind}" for kind, _ in catalogue.kinds()}
    file = "tests/lab/test_lab_systemd.py"

    assert {plugin.group_of(f"{quick.FILE}::test_scenario[{one.id}]") for one in PAIRS} == wanted
    assert plugin.group_of(f"{file}::test_a_quota[33.3%-100ms-small-6.1-systemd]") == f"{file} small-6.1-systemd"
    assert plugin.group_of(f"{file}::test_nothing") == f"{file} "


WORKERS = """
import os, pathlib, pytest

@pytest.mark.parametrize("case", [f"{kind}-{n}" for n in range(4) for kind in ("pair-6.1", "quad-6.12-rt")])
def test_it(case):
    with pathlib.Path("workers").open("a") as file:
        file.write(f"{case[:4]} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""


def test_a_worker_runs_the_whole_of_a_group(tmp_path: Path) -> None:
    """With two workers, too: every worker would start every guest otherwise."""
    (tmp_path / "conftest.py").write_text("from tests.lab.harness.plugin import pytest_xdist_make_scheduler\n")
    (tmp_path / "test_it.py").write_text(WORKERS)
    options = ["-n2", "--dist=loadgroup", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    environment = {**os.environ, "PYTHONPATH": str(settings.PROJECT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "."], cwd=tmp_path, env=environment, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout
    lines = (tmp_path / "workers").read_text().splitlines()
    assert len(lines) == 8
    assert len(set(lines)) == 2
