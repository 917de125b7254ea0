"""Competitors that are planted, with accounts of their own: how long a claim waited, and what it waited for, by name.

How long the claim waited is compared with the kernel's run delay of its thread, what a competitor took with the time
that perf counted of it, and what was throttled with the cgroup's own count.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from probes.loaded import loaded, observing
from probes.options import ObserveOptions
from probes.switches.ledger import Ledger
from tests.integration.membership_lab import procs, removed
from tests.integration.probe_lab import TaskClock, cgroup, wait_for
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Culprit, CulpritClass, Evidence
from toolkit.model.verdict import Outcome
from validators.queries.pressure import pressed
from validators.rules import weight_share

ONLINE = sorted(os.sched_getaffinity(0))
CPU = ONLINE[-1]
WINDOW_S = 1.0
PERIOD_US, QUOTA_US = 100_000, 20_000
RIVAL = "planted"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="a CPU of its own, and one for the test"),
]


@pytest.fixture(scope="module")
def timed() -> Iterator[Ledger]:
    """Loaded programs that keep a timeline."""
    with loaded(options=ObserveOptions(timeline=True)) as ledger:
        yield ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What something says of a time that lies within the window, and of one that holds it (ns)."""

    least: int
    most: int

    def agrees(self, seen: int, slack: int = 0) -> bool:
        """Say whether what was seen is right: to 5 %."""
        return self.least * 0.95 - slack <= seen <= self.most * 1.05 + slack


@dataclass(slots=True)
class Scene:
    """A claim that asks for all of a CPU, and what is planted beside it."""

    ledger: Ledger
    mover: Path
    stack: ExitStack
    claimed: tuple[str, ...] = ("db",)
    pods: bool = False
    homes: dict[str, str] = field(default_factory=dict)
    evidence: Evidence | None = None
    waited: Account | None = None
    took: Account | None = None
    throttled: Account | None = None

    def plant(self, words: str, *before: str) -> int:
        """Start a program of these words; it is killed at the end."""
        task = subprocess.Popen([*before, str(self.mover), *words.split()])
        self.stack.callback(task.wait)
        self.stack.callback(task.kill)
        return task.pid

    def observe(self, victim: int, rival: int | None = None, counter: Path | None = None) -> None:
        """Watch for a second, and read every account before and after."""
        pods = self.homes["web"] if self.pods else None
        clock = self.stack.enter_context(TaskClock(rival)) if rival else None
        observer = self.stack.enter_context(observing(ClaimSet(claims=(), pods_root=pods), ledger=self.ledger))
        for name in self.claimed:
            observer.add_claim(Claim(name=name, cgroup=self.homes[name], cpus=CpuSet.of([CPU])))

        def read() -> tuple[int, int, int]:
            return run_delay_ns(victim), clock.read_ns() if clock else 0, throttled_ns(counter) if counter else 0

        before = read()
        observer.open_window()
        opened = read()
        time.sleep(WINDOW_S)
        closing = read()
        self.evidence = observer.close_window()
        after = read()
        self.waited, self.took, self.throttled = (
            Account(least=closing[one] - opened[one], most=after[one] - before[one]) for one in range(3)
        )


def run_delay_ns(pid: int) -> int:
    """Return for how long the kernel let a thread wait, up to when it ran last."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def throttled_ns(counter: Path) -> int:
    """Return for how long a cgroup was throttled, by the kernel's count."""
    counts = dict(line.split() for line in counter.read_text().splitlines())
    return int(counts.get("throttled_time", 0)) or int(counts.get("throttled_usec", 0)) * 1000


@contextmanager
def scene(ledger: Ledger, mover: Path, *claimed: str, pods: bool = False) -> Iterator[Scene]:
    """Two cgroups; the test itself leaves the CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {CPU})
    try:
        with ExitStack() as stack:
            one = Scene(ledger=ledger, mover=mover, stack=stack, claimed=("db", *claimed), pods=pods)
            for name in ("db", "web"):
                one.homes[name] = stack.enter_context(cgroup(f"pinproof-took-{name}-{os.getpid()}"))
            yield one
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def weighty(name: str, quota_us: int = -1) -> Iterator[Path]:
    """Make a cgroup in the hierarchy of the cpu controller that goes before whatever else this machine runs."""
    hierarchy = cgroupfs.detect()
    directory, old = hierarchy.controller_dir("cpu") / name.strip("/"), not hierarchy.is_v2("cpu")
    if old:
        directory.mkdir()
    elif not (directory / "cpu.max").exists():
        pytest.skip("the v2 root has no cpu controller turned on")
    try:
        if old:
            (directory / "cpu.shares").write_text("262144")
            (directory / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (directory / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (directory / "cpu.weight").write_text("10000")
            (directory / "cpu.max").write_text(f"{'max' if quota_us < 0 else quota_us} {PERIOD_US}")
        yield directory
    finally:
        if old:
            wait_for(lambda: removed(directory), f"{directory} removed")


def worst(evidence: Evidence) -> Culprit:
    """Return what the claim waited for longest."""
    return next(one for one in evidence.culprits if one.claim == "db")


def adds_up(evidence: Evidence) -> bool:
    """Say whether all that was told has a culprit or is said to have none: to 1 %, or 100 us."""
    told = sum(row.told_ns for row in evidence.delays if row.claim == "db")
    named = sum(one.total_ns for one in evidence.culprits if one.claim == "db")
    unnamed = sum(row.unnamed_ns for row in evidence.delays if row.claim == "db")
    return abs(told - named - unnamed) <= max(told // 100, 100_000)


def checked(one: Scene) -> Evidence:
    """Return the evidence, whose delay is that of the kernel, and whose bins have what its rows have."""
    evidence, waited = one.evidence, one.waited
    assert evidence is not None
    assert waited is not None
    (row,) = [row for row in evidence.delays if row.claim == "db"]
    # A wait counts when it is over: at each end one may be on either side.
    assert waited.agrees(row.wait_ns, row.longest_ns), (waited, row)
    assert adds_up(evidence), (evidence.delays, evidence.culprits)
    (bins,) = [bins for bins in evidence.timeline_bins if bins.claim == "db" and bins.cpu == CPU]
    (use,) = [use for use in evidence.cpu_use if use.claim == "db"]
    assert sum(bins.run_us) * 1000 == pytest.approx(use.run_ns, abs=len(bins.bins) * 1000)
    assert sum(bins.wait_us) * 1000 == pytest.approx(row.wait_ns, abs=len(bins.bins) * 1000)
    assert max(bins.run_us[1:]) <= bins.bin_ns // 1000
    # The kernel's own witness, which counts a wait while it goes on: of one task on one CPU it is the same sum.
    (pressure,) = [row for row in evidence.pressure if row.claim == "db"]
    assert not pressure.unread
    assert waited.agrees(pressure.some_us * 1000, row.longest_ns + pressure.skew_ns), (waited, pressure)
    assert disagreement(evidence) == ""
    return evidence


def disagreement(evidence: Evidence) -> str:
    """Return where the ledger's waits and the kernel's pressure stall information differ about ``db``."""
    claim = Claim(name="db", cgroup="/db", cpus=CpuSet.of([CPU]))
    found = pressed(claim, ClaimSet(claims=(claim,)), evidence)
    return "" if found is None else found.problem


def load(one: Scene, home: str, weight: Path, name: str) -> int:
    """Start a program that runs whenever it may, in a cgroup's identity and another's weight."""
    words = f"name {name} put {weight / 'cgroup.procs'} 0 pin {CPU} put {procs(one.homes[home])} 0 forever"
    return one.plant(words)


def test_a_real_time_task_is_named(timed: Ledger, mover: Path) -> None:
    """It takes the CPU three fifths of the time, of a task that would run on: that is preempted."""
    with weighty(f"pinproof-took-db-{os.getpid()}") as weight, scene(timed, mover) as one:
        waits = load(one, "db", weight, "victim")
        burst = f"name {RIVAL} pin {CPU} times 1000 {{ burn 6000 nap 4000 }}"
        one.observe(waits, one.plant(burst, "chrt", "-f", "10"))
    evidence = checked(one)
    first = worst(evidence)

    assert (first.owner, first.name) == (CulpritClass.SYSTEM, RIVAL)
    assert one.took is not None
    assert one.took.agrees(first.total_ns, 6_000_000), (one.took, first)
    (row,) = [row for row in evidence.delays if row.claim == "db"]
    assert row.preempted_ns > row.told_ns / 2
    assert sum(row.preempted) > sum(row.woken)


@pytest.mark.parametrize("pods", [False, True], ids=["another claim", "another pod"])
def test_a_fair_competitor_is_named(timed: Ledger, mover: Path, pods: bool) -> None:
    """By its claim, or by the cgroup of its pod where that is under none."""
    claimed = [] if pods else ["web"]
    with (
        weighty(f"pinproof-took-db-{os.getpid()}") as light,
        weighty(f"pinproof-took-web-{os.getpid()}") as heavy,
        scene(timed, mover, *claimed, pods=pods) as one,
    ):
        one.observe(load(one, "db", light, "victim"), load(one, "web", heavy, RIVAL))
    first, took = worst(checked(one)), one.took

    wanted = (CulpritClass.FOREIGN_POD, one.homes["web"]) if pods else (CulpritClass.CLAIM, "web")
    assert (first.owner, first.name or first.cgroup) == wanted
    assert took is not None
    assert took.agrees(first.total_ns, first.longest_ns), (took, first)


def test_a_throttled_claim_waits_for_its_quota(timed: Ledger, mover: Path) -> None:
    """Not for what runs meanwhile: as long as the kernel says that its cgroup was throttled."""
    with weighty(f"pinproof-took-db-{os.getpid()}", QUOTA_US) as weight, scene(timed, mover) as one:
        one.observe(load(one, "db", weight, "victim"), counter=weight / "cpu.stat")
    first, throttled = worst(checked(one)), one.throttled

    assert first.owner is CulpritClass.THROTTLED
    assert throttled is not None
    assert throttled.agrees(first.total_ns, PERIOD_US * 1000), (throttled, first)


def test_a_wait_that_does_not_end_is_seen_by_the_kernel(timed: Ledger, mover: Path) -> None:
    """Two real-time tasks have the CPU in turn, and one of less priority never: no wait of it ends, and PSI says so."""
    with scene(timed, mover, "web") as one:
        words = f"name {RIVAL} pin {CPU} put {procs(one.homes['web'])} 0 forever"
        victim = one.plant(f"name victim pin {CPU} put {procs(one.homes['db'])} 0 forever", "chrt", "-f", "1")
        time.sleep(0.1)  # It has begun to run in its cgroup.
        for _ in range(2):
            one.plant(words, "chrt", "-r", "10")
        time.sleep(0.2)
        one.observe(victim)
        claims = ClaimSet(
            claims=tuple(
                Claim(name=name, cgroup=one.homes[name], cpus=CpuSet.of([CPU]), weight=100, contended=True)
                for name in one.claimed
            )
        )
    evidence = one.evidence
    assert evidence is not None
    found = pressed(claims.claims[0], claims, evidence)
    assert found is not None
    assert found.waited_ns < 100_000_000
    assert found.some_ns == pytest.approx(found.window_ns, rel=0.05)
    assert "by the waits that have ended: one goes on, or was not seen" in found.problem
    verdict = weight_share.RULE.check(claims, evidence)[0]
    assert (verdict.outcome, f"{found.some_ns / 1e6:.1f} ms by the kernel's PSI" in verdict.reason) == (
        Outcome.UNDECIDED,
        True,
    )


def test_nothing_is_invented(timed: Ledger, mover: Path) -> None:
    """A task that goes before all others on its CPU waits for next to nothing, and hardly anything has a name."""
    with scene(timed, mover) as one:
        words = f"pin {CPU} put {procs(one.homes['db'])} 0 times 100000 {{ nap 2000 burn 500 }}"
        one.observe(one.plant(words, "chrt", "-f", "50"))
    evidence = one.evidence
    assert evidence is not None

    assert adds_up(evidence)
    assert one.waited is not None
    assert sum(row.wait_ns for row in evidence.delays) <= one.waited.most * 1.05 + 1_000_000
    assert sum(culprit.total_ns for culprit in evidence.culprits) <= one.waited.most * 1.05 + 1_000_000
    assert all(culprit.claim == "db" for culprit in evidence.culprits)
