"""Fixtures for the tests on the real kernel: programs that are compiled once for a module, and a foreign program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from probes.loaded import loaded, observing
from probes.observer import Observer
from probes.switches.ledger import Ledger
from tests.integration.lost_support import CLAIMS
from tests.integration.probe_lab import cgroup, compile_program
from toolkit.model.claims import ClaimSet
from toolkit.session.engine.prepared import Prepared

RUNTIME = ("test_watch_kubelet.py", "test_field_node.py", "test_watch_writer.py", "test_cri_node.py")
"""Files that run a container runtime, and would wait for each other (``cri_node.alone``)."""
REFUSING = (
    "test_ansible_jobs.py::test_conformance_of_this_machine",
    "test_one_way.py",
    "test_run_cut.py",
    "test_runs_are_not_lost.py",
    "test_stopped_loads.py",
)
"""Files, or single tests, with verbs that refuse a node at work, as one with a container runtime may be."""
NODE = (*RUNTIME, *REFUSING)
"""None of these runs beside another: one worker has them all."""
FIRST = (
    "test_ansible_fleet.py",
    "test_ansible_local.py",
    *(name.partition("::")[0] for name in NODE),
    "test_watch_tool.py",
    "test_host_lacks.py",
    "test_inject_faults.py",
    "test_nothing_is_lost.py",
    "test_conformance_stages.py",
    "test_watch_killed.py",
    "test_watch_pace.py",
    "test_watch_windows.py",
)
"""Files that take longest, of those that run beside others, or idle: when a worker ends the others have just ended."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker whole files, as ``--dist loadfile`` does, and one of them all of :data:`NODE`."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # in the lab's guests there is none

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            name = Path(file).name + nodeid[len(file) :]
            return "node" if name.startswith(NODE) else file

    return Files(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: what is not marked ``beside`` too has the machine for itself.

    Files whose tests share loaded programs come last, one after the other: they are loaded once, and no other file has
    them loaded.
    """
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.integration)
    sharing = {item.path for item in here if isinstance(item, pytest.Function) and "ledger" in item.fixturenames}
    rank = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: (item.path in sharing, rank.get(item.path.name, len(FIRST))))


@pytest.fixture
def two_cpus() -> None:
    """Skip where this machine has one CPU to use: nothing can be owned beside something else, and nothing escape."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("an escape needs two CPUs, and an exclusive CPU another one beside it")


@pytest.fixture(scope="session")
def ledger() -> Iterator[Ledger]:
    """Loaded programs with the default options, for one observer after the other; ``test_probe_reuse.py`` holds that
    none finds anything of another.

    Loading takes most of a second, in a guest of the lab half a minute. Loaded programs cost every switch of the
    machine something, whether they are used or not: the files that use none have run before.
    """
    with loaded() as one:
        yield one


@pytest.fixture(scope="module")
def observer(ledger: Ledger) -> Iterator[Observer]:
    """One observer for all windows of this module."""
    with observing(ClaimSet(claims=()), ledger=ledger) as opened:
        yield opened


@pytest.fixture(scope="module")
def kept(ledger: Ledger) -> Iterator[Prepared]:
    """The loaded programs, and running canaries for all observations of this module, one after the other."""
    one = Prepared(ledger, f"kept-{os.getpid()}", Path("/"))
    yield one
    one.close()


@pytest.fixture(scope="session")
def planter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled foreign program."""
    return compile_program("planter", tmp_path_factory.mktemp("planter"))


@pytest.fixture(scope="session")
def director(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program that performs a script of plants."""
    return compile_program("director", tmp_path_factory.mktemp("director"))


@pytest.fixture
def empty_claims(tmp_path: Path) -> Iterator[Path]:
    """A claims file about an empty cgroup."""
    with cgroup(f"pinproof-lost-{os.getpid()}") as place:
        path = tmp_path / "claims.yaml"
        path.write_text(CLAIMS.replace("PLACE", place))
        yield path


@pytest.fixture(scope="session")
def mover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program that moves between cgroups."""
    return compile_program("mover", tmp_path_factory.mktemp("mover"))
