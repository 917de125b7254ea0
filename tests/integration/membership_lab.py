"""A program that moves between cgroups by a script of words, and the truth about how long it was where.

The truth is perf's: how long a task was on a CPU between two moves. It runs by the probes' clock and knows nothing of
cgroups.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from probes.observer import Observer
from tests.integration.perf_account import PerfAccount
from tests.integration.probe_lab import Planter, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuUse, Evidence
from toolkit.model.verdict import Outcome
from validators.credibility.contradictions import contradictions
from validators.registry import judge


def procs(path: str) -> Path:
    """Return the file of a cgroup that moves whole processes."""
    return cgroupfs.identity_dir(cgroupfs.detect(), path) / "cgroup.procs"


def home(pid: int) -> Path:
    """Return the same of the cgroup in which a process is, to come back to it."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return procs(next(line.removeprefix("0::") for line in lines if line.startswith("0::")))


@contextlib.contextmanager
def cpuset(path: str, cpus: CpuSet) -> Iterator[Path]:
    """Make a cgroup of this name in the v1 hierarchy of the cpuset controller; yields its ``cgroup.procs``."""
    root = cgroupfs.detect().controller_dir("cpuset")
    directory = root / path.strip("/")
    directory.mkdir()
    try:
        (directory / "cpuset.mems").write_text((root / "cpuset.mems").read_text())
        (directory / "cpuset.cpus").write_text(str(cpus))
        yield directory / "cgroup.procs"
    finally:
        for pid in (directory / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (root / "cgroup.procs").write_text(pid)
        wait_for(lambda: removed(directory), f"{directory} removed")


def removed(directory: Path) -> bool:
    """Remove a cgroup; say whether it is gone."""
    try:
        directory.rmdir()
    except OSError:
        return False
    return True


@dataclass(slots=True)
class Account:
    """Time on a CPU in a number of stays.

    A move is somewhere inside a ``write(2)``: ``low_ns`` is from the end of the one to the begin of the other,
    ``high_ns`` from the begin of the one to the end of the other.
    """

    low_ns: int = 0
    high_ns: int = 0
    stays: int = 0
    tid: int = 0

    def agrees(self, seen_ns: int, lost_ns: int = 0, hidden_ns: int = 0) -> bool:
        """Say whether what was seen is right: to 5 %, or 20 us a stay.

        :param lost_ns: what the ledger cannot know (``PerfAccount.lost_ns``).
        :param hidden_ns: what hidden threads ran, where it is in the task's time.
        """
        slack = max(0.05 * self.high_ns, 20_000 * self.stays)
        return self.low_ns - slack - lost_ns <= seen_ns <= self.high_ns + slack + hidden_ns


class Mover(Planter):
    """The program: it stops at ``ready`` and ``tell``, and goes on when told."""

    def __init__(self, program: Path, script: str) -> None:
        super().__init__(program, *script.split())

    def account(self) -> Account:
        """Wait until it tells."""
        return Account(**json.loads(self._line()))


class Stays:
    """The account of moves that the test makes: ``move`` writes, and perf is read right before and after.

    ``switched_out``: how often it was switched out meanwhile, at most: both moves included.
    """

    def __init__(self, perf: PerfAccount) -> None:
        self._perf = perf
        self._begin = (0, 0)
        self.account = Account()
        self.switched_out = 0

    def enter(self, move: Callable[[], object]) -> None:
        """Move in."""
        self.switched_out -= self._perf.switches.read()
        before = self._perf.read_ns()
        move()
        self._begin = (before, self._perf.read_ns())

    def leave(self, move: Callable[[], object]) -> None:
        """Move out."""
        low = self._perf.read_ns()
        move()
        self.account.low_ns += low - self._begin[1]
        self.account.high_ns += self._perf.read_ns() - self._begin[0]
        self.account.stays += 1
        self.switched_out += self._perf.switches.read()

    def lost_ns(self, counted: int, died: int = 0) -> int:
        """Return how much of the stays the ledger cannot know, of whose switches it counted so many."""
        return self._perf.lost_ns(counted, switched_out=self.switched_out, died=died)


def claim(name: str, path: str, *cpus: int) -> Claim:
    """Return the claim that a cgroup's tasks stay on these CPUs."""
    return Claim(name=name, cgroup=path, cpus=CpuSet.of(cpus))


def rest(seconds: float) -> None:
    """Let time pass in short sleeps: the CPU that is needed by others is left, and taken back soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.0002)


def total(evidence: Evidence, name: str = "db") -> CpuUse:
    """Sum a claim's rows over the CPUs."""
    rows = [row for row in evidence.cpu_use if row.claim == name]
    fields = [field for field in CpuUse.__dataclass_fields__ if field not in ("claim", "cpu")]
    return CpuUse(claim=name, cpu=-1, **{field: sum(getattr(row, field) for row in rows) for field in fields})


def switches_on(evidence: Evidence, cpu: int, name: str = "db") -> int:
    """Return how many switches out of a claim's tasks the ledger counted on a CPU."""
    return sum(row.switches for row in evidence.cpu_use if (row.claim, row.cpu) == (name, cpu))


def complete(evidence: Evidence) -> None:
    """Assert that nothing was lost, and that the offenders add up to the rows."""
    coverage = evidence.coverage
    assert (coverage.lost_events, coverage.map_full, coverage.missed_runs) == (0, 0, 0)
    assert sum(row.total_ns for row in evidence.offenders) == sum(row.out_of_set_ns for row in evidence.cpu_use)


def played(
    observer: Observer, mover: Path, script: str, cpu: int, nice: int = 0
) -> tuple[Evidence, Account, PerfAccount, int]:
    """Play a script in a window of which nothing is lost; returns the account, perf's on ``cpu``, and the pid."""
    before_ns = charged_ns()
    with Mover(mover, f"ready {script} tell") as run, PerfAccount(run.pid, cpu, observer) as perf:
        if nice:
            os.setpriority(os.PRIO_PROCESS, run.process.pid, nice)
        observer.open_window()
        run.go()
        account = run.account()
        evidence = observer.close_window()
        perf.close()
        run.end()
        perf.ended(charged_ns() - before_ns)
        complete(evidence)
        return evidence, account, perf, run.process.pid


def charged_ns() -> int:
    """Return the CPU time of all children that have ended and were waited for, of theirs too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


OF_THE_MOMENT = ("hides threads", "softirqs on watched CPUs")
"""Blind spots that tell of what other threads of the machine did in just this window."""


def without_the_moment(evidence: Evidence) -> Evidence:
    """Return evidence without what other threads of the machine did just then; what it says else is the test's own."""
    seen = evidence.coverage
    kept = tuple(spot for spot in seen.blindness if not any(word in spot.text for word in OF_THE_MOMENT))
    return replace(evidence, coverage=replace(seen, blindness=kept, blind_spots=tuple(spot.text for spot in kept)))


def consistent(evidence: Evidence) -> None:
    """Assert that the numbers do not contradict each other: that would fail ``evidence-health``."""
    wrong = list(contradictions(evidence))
    assert not wrong, wrong


def verdict(claims: ClaimSet, evidence: Evidence, rule: str) -> Outcome:
    """Judge; return the worst outcome of a rule."""
    found = [one.outcome for one in judge(claims, evidence) if one.rule == rule]
    order = (Outcome.FAILED, Outcome.UNDECIDED, Outcome.PASSED, Outcome.SKIPPED)
    return min(found, key=order.index)
