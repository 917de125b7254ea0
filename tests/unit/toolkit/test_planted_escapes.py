"""How many escapes the canaries made by the kernel's count: between the two readings that lie inside the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from probes.observer import Observer
from probes.options import ObserveOptions
from probes.readings import Frame, Moment, Readings
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment
from toolkit.session.canary import CLEAN, NOT_RUNNING, POSITIVE, CanaryPair, planted_between
from toolkit.session.observe import Observation

PIDS = {POSITIVE: 11, CLEAN: 12}
ENVIRONMENT = Environment(kernel="6.1", cgroup="v2", cmdline="", cpus_online=CpuSet.of([0, 1]))


class Host:
    """A tree with two canaries whose switches the test counts up."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, pid in PIDS.items():
            group = root / "sys/fs/cgroup" / name
            group.mkdir(parents=True)
            (group / "cgroup.procs").write_text(f"{pid}\n")
            (root / f"proc/{pid}").mkdir(parents=True)
        self.switches = 100
        self.run(0)

    def run(self, switches: int) -> None:
        """Let each canary be switched out some more."""
        self.switches += switches
        text = f"Name:\tpython\nvoluntary_ctxt_switches:\t{self.switches}\nnonvoluntary_ctxt_switches:\t3\n"
        for pid in PIDS.values():
            (self.root / f"proc/{pid}/status").write_text(text)

    def pair(self) -> CanaryPair:
        """Return the canaries."""
        claims = cast("Any", tuple(Claim(name=name, cgroup=f"/{name}", cpus=CpuSet.of([0])) for name in PIDS))
        unified = self.root / "sys/fs/cgroup"
        hierarchy = Hierarchy(root=self.root, mode=Mode.V2, unified=unified)
        return CanaryPair(cpu=0, online=CpuSet.of([0]), claims=claims, hierarchy=hierarchy)


class Slow:
    """An observer whose windows begin and end between other work, during which the canaries run on."""

    BEFORE, GATHERING = 10, 1000
    window = None

    def __init__(self, host: Host) -> None:
        self.host = host

    def open_window(self) -> None:
        """Prepare, then begin: what ran before is not in the window."""
        self.host.run(self.BEFORE)

    def end_window(self) -> Readings:
        """End the window, then gather what was seen in it."""
        self.host.run(self.GATHERING)
        frame = Frame(
            number=1,
            started_at="",
            first=Moment(at_ns=1),
            last=Moment(at_ns=2),
            closed=True,
            environment=ENVIRONMENT,
            options=ObserveOptions(),
            names={},
        )
        return Readings(frame, ())

    read_so_far = end_window

    def poll(self, timeout_s: float) -> tuple[()]:
        """Report nothing."""
        return ()


@pytest.mark.parametrize("end", ["close", "snapshot"])
def test_only_escapes_inside_the_window_are_planted(tmp_path: Path, end: str) -> None:
    """What the canaries do while a window is prepared or evidence is gathered cannot have been seen: it is not asked
    for.
    """
    host = Host(tmp_path)
    opened = Observation(cast("Observer", Slow(host)), host.pair(), tmp_path, ENVIRONMENT, lambda _violation: None)
    host.run(42)

    evidence = opened.snapshot() if end == "snapshot" else opened.close().evidence

    assert [canary.planted_switches for canary in evidence.canaries] == [42, 42]


@pytest.mark.parametrize("gone", ["killed", "unread"])
def test_a_canary_that_ended_planted_nothing_that_counts(tmp_path: Path, gone: str) -> None:
    """Its cgroup is empty, or /proc has nothing of it: neither is a count of 0, nor less than none."""
    host = Host(tmp_path)
    opened = Observation(cast("Observer", Slow(host)), host.pair(), tmp_path, ENVIRONMENT, lambda _violation: None)
    host.run(42)
    if gone == "killed":
        (tmp_path / "sys/fs/cgroup" / POSITIVE / "cgroup.procs").write_text("")
    else:
        (tmp_path / f"proc/{PIDS[POSITIVE]}/status").unlink()

    evidence = opened.close().evidence

    assert [canary.planted_switches for canary in evidence.canaries] == [NOT_RUNNING, 42]


def test_a_canary_that_is_read_again_is_none_that_ran_through() -> None:
    """Of one that could not be read when the window opened it is not known how often it was switched in it."""
    assert planted_between({POSITIVE: None, CLEAN: 7}, {POSITIVE: 9, CLEAN: 9}) == {POSITIVE: NOT_RUNNING, CLEAN: 2}
    assert planted_between({POSITIVE: 9}, {POSITIVE: 7}) == {POSITIVE: NOT_RUNNING}
