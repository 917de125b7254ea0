"""What a live view shows of a window that is open: claims, CPUs, and what was reported. Pure but for the last look.

A rate is the difference of two looks at the ledger's counters, so it is of the time between them; everything that is
called outside is a sum of the window that is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from toolkit.model.claim_changes import in_force
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.report.machine_owners import owners_by_claims
from toolkit.session.windows.counters import SessionState
from toolkit.timeline.ran import asked

Key = tuple[object, ...]
"""Of a counter: a claim and a CPU, or a CPU and a task."""
LEAST_SHARE = 0.005
"""Of a CPU: less is not worth a place on a screen, but of what may not run there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    """One claim. :param promised: in words. :param used: CPUs, since the last look. :param outside_ns: so far."""

    name: str
    promised: str
    used: float
    runs_on: str
    outside_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRow:
    """One CPU. :param busy: how much of it was used since the last look, from 0 to 1.

    :param runs: what ran there meanwhile, with its share of the CPU: first what may not, then the most of it.
    :param outside: claims that ran there and may not.
    """

    cpu: int
    owner: str
    busy: float
    runs: tuple[tuple[str, float], ...]
    outside: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One look. :param window_s: for how long the open window has been. :param last: how the one before came out."""

    window_s: float
    claims: tuple[ClaimRow, ...]
    cpus: tuple[CpuRow, ...]
    switches: int
    lost: int
    windows: int
    last: str


@dataclass(slots=True)
class Looks:
    """Turns states of a session into boards; the counters of the last look are kept."""

    _counters: Mapping[Key, int] = field(default_factory=dict)
    _moment_ns: int = 0

    def look(self, state: SessionState) -> Board | None:
        """Return what is to be shown; ``None``: no window is open."""
        found, promised = state.open, state.promised
        if found is None or promised is None:
            return None
        now_ns = found.start_monotonic_ns + found.duration_ns
        counters = _counters(found)
        same = self._moment_ns > found.start_monotonic_ns
        before = self._counters if same else {}
        passed_ns = max(1, now_ns - (self._moment_ns if same else found.start_monotonic_ns))
        shares = {key: max(0, ns - before.get(key, 0)) / passed_ns for key, ns in counters.items()}
        self._counters, self._moment_ns = counters, now_ns
        return _board(in_force(promised, found.changed), found, shares, state)


def _counters(found: Evidence) -> dict[Key, int]:
    counters: dict[Key, int] = {(row.claim, row.cpu): row.run_ns for row in found.cpu_use}
    for one in found.intruders:
        key = (one.cpu, one.tid, one.comm)
        counters[key] = counters.get(key, 0) + one.total_ns
    return counters


def _board(claims: ClaimSet, found: Evidence, shares: Mapping[Key, float], state: SessionState) -> Board:
    rows = asked(found).rows
    outside: dict[str, int] = {}
    strangers: dict[int, list[str]] = {}
    for row in rows:
        if row.outside:
            outside[row.claim] = outside.get(row.claim, 0) + row.out_ns
            strangers.setdefault(row.cpu, []).append(row.claim)
    on: dict[str, list[tuple[float, int]]] = {}
    runs: dict[int, dict[str, float]] = {}
    for row in rows:
        share = shares.get((row.claim, row.cpu), 0.0)
        if share >= LEAST_SHARE or (row.outside and share):
            on.setdefault(row.claim, []).append((share, row.cpu))
            runs.setdefault(row.cpu, {})[row.claim] = share
    for one in found.intruders:
        share = shares.get((one.cpu, one.tid, one.comm), 0.0)
        if share >= LEAST_SHARE:
            of_cpu, name = runs.setdefault(one.cpu, {}), f"{one.comm} ({one.owner})"
            of_cpu[name] = of_cpu.get(name, 0.0) + share
    return Board(
        window_s=found.duration_ns / 1e9,
        claims=tuple(
            _claim(one, on.get(one.name, ()), outside.get(one.name, 0))
            for one in claims.claims
            if one.kind.carries_tasks
        ),
        cpus=tuple(_cpus(claims, found, runs, strangers)),
        switches=found.coverage.switches_judged,
        lost=found.coverage.lost_events + found.coverage.map_full,
        windows=sum(state.counters.windows.values()),
        last="" if state.last is None else str(state.last.outcome),
    )


def _claim(claim: Claim, on: Sequence[tuple[float, int]], outside_ns: int) -> ClaimRow:
    return ClaimRow(
        name=claim.name,
        promised=_promised(claim),
        used=sum(share for share, _ in on),
        runs_on=", ".join(str(cpu) for _, cpu in sorted(on, reverse=True)[:8]),
        outside_ns=outside_ns,
    )


def _promised(claim: Claim) -> str:
    parts = [] if claim.cpus is None else [f"CPUs {claim.cpus}" + (" exclusive" if claim.exclusive else "")]
    if claim.quota_us is not None and claim.quota_us != NO_QUOTA:
        parts.append(f"{claim.quota_us / claim.period_us:.2f} CPUs quota")
    return ", ".join(parts) or "-"


def _cpus(
    claims: ClaimSet, found: Evidence, runs: Mapping[int, Mapping[str, float]], strangers: Mapping[int, list[str]]
) -> Iterable[CpuRow]:
    online = found.environment.cpus_online
    owner_of = {cpu: one.name for one in owners_by_claims(claims, online) for cpu in one.cpus}
    for cpu in online:
        of_cpu, outside = runs.get(cpu, {}), tuple(dict.fromkeys(strangers.get(cpu, ())))
        worst_first = sorted(of_cpu.items(), key=lambda item: (item[0] not in outside, -item[1]))
        yield CpuRow(
            cpu=cpu,
            owner=owner_of.get(cpu, "no owner"),
            busy=min(1.0, sum(of_cpu.values())),
            runs=tuple(worst_first[:4]),
            outside=outside,
        )
