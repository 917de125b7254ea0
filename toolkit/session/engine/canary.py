"""The controls of every run: a canary whose claim is false must be reported, one whose claim is true must not.

Both are pulses (short bursts, long sleeps) on the same housekeeping CPU, in cgroups of their own that carry nothing but
their identity: an affinity holds them there, so that nothing on the host changes for them, and the false claim is just
another CPU set in the ledger. To the observer they are ordinary claims; their evidence is of the same type, built of
the same readings as that of the claims that are judged, and :class:`ControlReading` sums it up.
Source: docs/principles.md, "positive control".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from probes.readings import Part, Reading, Readings
from probes.subjects import Violation
from toolkit.apply.pinned import pinned
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.task_switches import context_switches
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Canary, Evidence
from toolkit.model.evidence.controls import CLEAN as CLEAN
from toolkit.model.evidence.controls import POSITIVE as POSITIVE
from toolkit.model.evidence.controls import ControlCoverage, ControlEvidence
from toolkit.model.sandbox import Workload, WorkloadKind

NAMES = (POSITIVE, CLEAN)
_STATUS = re.compile(r"^(State|Cpus_allowed_list):\t(\S+)", re.MULTILINE)
OFTEN, SELDOM = Workload(kind=WorkloadKind.PULSE), Workload(kind=WorkloadKind.PULSE, period_ms=200)
"""Pulses of a window whose length is short or not known, and of one of :data:`LONG_S` at least. The first planted
escape must have been reported within 250 ms: a window of a second has 25, four times as many as there are before that,
a long one a hundred at least. A watch of months pays for each.
"""
LONG_S = 20.0
NOT_RUNNING = -1
"""The planted switches of a canary that did not run where it was put from one end of a window to the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPair:
    """The two canaries while they run, or none. :param places: claim name -> the affinity that it was given."""

    cpu: int
    online: CpuSet
    claims: tuple[Claim, ...]
    hierarchy: cgroupfs.Hierarchy
    places: Mapping[str, CpuSet]


def housekeeping_cpu(claims: ClaimSet, online: CpuSet, cpus: CpuSet | None = None) -> int:
    """Choose a CPU that no container owns alone: a reserved one if possible, so that no owner's work is disturbed."""
    if cpus is not None and cpus & online:
        online = cpus & online
    free = online - claims.exclusive_cpus
    for choice in (free & claims.reserved_cpus, free, online):
        if choice:
            return choice.first()
    raise ValueError("no CPU is online")


def pulse_for(window_s: float | None) -> Workload:
    """Return the canaries' load in windows of this length."""
    return SELDOM if window_s is not None and window_s >= LONG_S else OFTEN


@contextmanager
def canaries(
    claims: ClaimSet,
    online: CpuSet,
    run_id: str,
    root: Path,
    *,
    escape: bool = False,
    cpus: CpuSet | None = None,
    pulse: Workload = OFTEN,
) -> Iterator[CanaryPair]:
    """Run both canaries; ``escape`` really lets the clean one loose (the negative control of ``evidence-health``)."""
    cpu = housekeeping_cpu(claims, online, cpus)
    here = CpuSet.of([cpu])
    elsewhere = online - here  # with one CPU it is empty, and every place is outside of it
    with pinned(NAMES, pulse, here, run_id=f"{run_id}-canary", root=root) as live:
        places = {POSITIVE: here, CLEAN: elsewhere if escape and elsewhere else here}
        if places[CLEAN] != here:
            live.set_cpus(CLEAN, places[CLEAN])
        yield CanaryPair(
            cpu=cpu,
            online=online,
            claims=(
                Claim(name=POSITIVE, cgroup=live.cgroups[POSITIVE], cpus=elsewhere),
                Claim(name=CLEAN, cgroup=live.cgroups[CLEAN], cpus=here),
            ),
            hierarchy=live.hierarchy,
            places=places,
        )


@contextmanager
def no_canaries(claims: ClaimSet, online: CpuSet, root: Path, cpus: CpuSet | None = None) -> Iterator[CanaryPair]:
    """Run none: nothing is loaded that could see them."""
    cpu = housekeeping_cpu(claims, online, cpus)
    yield CanaryPair(cpu=cpu, online=online, claims=(), hierarchy=cgroupfs.detect(root), places={})


def fit(pair: CanaryPair, root: Path) -> bool:
    """Return whether both canaries still run where they were put.

    A CPU that goes offline takes their affinity with it, also when it comes back; and anything may stop or move a task.
    """
    for claim in pair.claims:
        pids = cgroupfs.pids(pair.hierarchy, claim.cgroup)
        if not pids or not all(_runs_on(pid, pair.places[claim.name], root) for pid in pids):
            return False
    return True


def _runs_on(pid: int, cpus: CpuSet, root: Path) -> bool:
    status = dict(_STATUS.findall(read_control(root / f"proc/{pid}/status") or ""))
    # Stopped, traced, dead: proc(5).
    if status.get("State", "X")[0] in "TtXZ":
        return False
    return "Cpus_allowed_list" in status and CpuSet.parse(status["Cpus_allowed_list"]) == cpus


def planted_switches(pair: CanaryPair, root: Path) -> dict[str, int | None]:
    """Return how often the kernel says that each canary was switched out so far; ``None``: it does not run where it was
    put. Kernels before 6.2 forget affinities when a cpuset controller is switched on or off, as systemd does for units.
    """
    found: dict[str, int | None] = {}
    for claim in pair.claims:
        pids = cgroupfs.pids(pair.hierarchy, claim.cgroup)
        counts = [context_switches(pid, root) if _runs_on(pid, pair.places[claim.name], root) else None for pid in pids]
        known = [count for count in counts if count is not None]
        found[claim.name] = sum(known) if known and len(known) == len(counts) else None
    return found


def planted_between(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> dict[str, int]:
    """Return each canary's switches between two readings; ``NOT_RUNNING``: it did not run at both, or was another."""
    found = {}
    for name, count in after.items():
        first = before.get(name)
        found[name] = NOT_RUNNING if count is None or first is None or count < first else count - first
    return found


def unless_moved(planted: Mapping[str, int], since: Mapping[str, int | None]) -> dict[str, int]:
    """Return what was planted; ``NOT_RUNNING`` of a canary that by a later reading does not run where it was put.

    It was moved just before the window's end or just after it: what it did elsewhere until then was no false alarm.
    """
    return {name: NOT_RUNNING if since.get(name) is None else count for name, count in planted.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReading(Reading):
    """The controls as a witness of a window: what was planted by the kernel's own count, beside what was seen of it.

    :param cpu: where both canaries ran. :param planted: claim name -> context switches by /proc during the window, or
        ``NOT_RUNNING``.
    :param seen: what the witnesses make of the canaries' claims.
    :param reported: the first report of the positive one's escape; ``None``: user space learnt of none.
    """

    cpu: int
    planted: Mapping[str, int]
    seen: Evidence
    reported: Violation | None = None

    def decode(self, readings: Readings) -> Part:
        """Give both canaries, and how soon the escape was reported."""
        del readings
        reported = self.reported
        latency_ms = None if reported is None else (reported.reported_at_ns - reported.first_at_ns) / 1e6
        return Part(
            evidence=ControlEvidence(canaries=tuple(self._canary(name) for name in NAMES if name in self.planted)),
            coverage=ControlCoverage(positive_control_latency_ms=latency_ms),
        )

    def _canary(self, name: str) -> Canary:
        rows = [row for row in self.seen.cpu_use if row.claim == name]
        reported = self.reported if name == POSITIVE else None
        return Canary(
            positive=name == POSITIVE,
            cpu=self.cpu,
            planted_at_ns=0 if reported is None else reported.first_at_ns,
            reported_at_ns=None if reported is None else reported.reported_at_ns,
            planted_switches=self.planted[name],
            out_of_set_switches=sum(row.out_of_set_switches for row in rows),
            run_ns=sum(row.run_ns for row in rows),
            out_of_set_ns=sum(row.out_of_set_ns for row in rows),
        )
