"""Tasks that are pinned without a cgroup: which of them are the node's own work, and what every machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from toolkit.host.cgroup_use import CgroupUse
from toolkit.model.cpuset import CpuSet
from toolkit.session.planning import pinned_work as work
from toolkit.session.planning.pinned_work import Task, Usual, pinned

ALL = "0-7"


def found(cpus: str, granted: str | None = ALL, *, first: str = ALL, ours: str = ALL, online: str = ALL) -> bool:
    """Whether a task with this mask is pinned."""
    parse = CpuSet.parse
    usual = Usual(online=parse(online), first=parse(first), ours=parse(ours))
    task = Task(pid=7, tid=8, cpus=parse(cpus), granted=None if granted is None else parse(granted))
    return bool(pinned([task], usual))


@pytest.mark.parametrize(
    ("cpus", "usual"),
    [
        pytest.param("1", {}, id="one-cpu"),
        pytest.param("1", {"granted": None}, id="a-cgroup-that-is-not-known"),
        pytest.param("4-7", {"first": "0-3"}, id="beside-a-pinned-systemd"),
        pytest.param("2", {"granted": "2-3"}, id="a-part-of-its-cgroup"),
        pytest.param("0-6", {}, id="all-but-one"),
    ],
)
def test_a_task_that_has_fewer_cpus_than_it_could_have_is_pinned(cpus: str, usual: dict[str, str]) -> None:
    """By itself or by another program, and not by where it was started."""
    assert found(cpus, **usual)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cpus", "usual"),
    [
        pytest.param(ALL, {}, id="it-was-never-pinned"),
        pytest.param("2-3", {"granted": "2-3"}, id="all-that-its-cgroup-has"),
        pytest.param("0-3", {"first": "0-3"}, id="a-machine-whose-systemd-is-pinned"),
        pytest.param("0-5", {"first": "0-3"}, id="more-than-systemd-has"),
        pytest.param("0-1", {"ours": "0-1"}, id="where-we-are-too"),
        pytest.param("0-3", {"online": "0-3"}, id="the-rest-is-offline"),
    ],
)
def test_what_every_machine_has_is_not_pinned(cpus: str, usual: dict[str, str]) -> None:
    """Masks that tasks inherit were not asked for."""
    assert not found(cpus, **usual)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("/usr/bin/python3 /usr/bin/pinproof watch", True),
        ("python -m toolkit run x.yaml", True),
        ("python3 -m pytest -n 2", True),
        ("/usr/bin/pytest --pyargs validators.conformance", True),
        ("qemu-system-x86_64 -m 4096", False),
        ("grep -r pattern pinproof", False),
    ],
)
def test_pinproof_is_known_by_how_it_is_started(line: str, ours: bool) -> None:
    """An observer keeps off exclusive CPUs: it is pinned, and busy."""
    assert work._names_us(line.split()) is ours


BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print(flush=True)\nwhile True: pass"
IDLE = BUSY.replace("while True: pass", "import time; time.sleep(60)")


@pytest.fixture(params=[(BUSY, True), (IDLE, False)], ids=["busy", "asleep"])
def process(request: pytest.FixtureRequest) -> Iterator[tuple[int, int, bool]]:
    """A process that pins itself: its number, its CPU, whether it works."""
    program, busy = request.param
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2 or os.sched_getaffinity(1) != set(cpus):
        pytest.skip("one CPU, or this test is pinned itself")
    with subprocess.Popen([sys.executable, "-c", program, str(cpus[-1])], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid, cpus[-1], busy
        child.kill()


def test_a_pinned_process_counts_while_it_works(
    process: tuple[int, int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that sleeps takes nothing, and every second machine has one."""
    pid, cpu, busy = process
    monkeypatch.setattr(work, "_is_ours", lambda _pid: False)  # this test has started it
    monkeypatch.setattr(work, "LOOK_S", 2.0)  # whatever else runs on that CPU
    online = CpuSet.of(os.sched_getaffinity(0))
    uses = [CgroupUse(path="/", cpus=online, pids=frozenset())]
    found = work.pinned_work(online, uses, frozenset())
    assert found.get(pid) == (CpuSet.of([cpu]) if busy else None)
    assert pid not in work.pinned_work(online, uses, frozenset({pid}))
