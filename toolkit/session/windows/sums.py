"""Many windows, one result: each rule's worst verdict about each subject, summed coverage, the worst windows. Pure.

Windows are added one by one and forgotten: what is kept depends on the number of claims and rules alone, so a day needs
no more memory than a minute. Subjects that no window names any more are summed up
(:mod:`toolkit.session.windows.gone`). The same sums are made while a watch goes on and when it is judged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from toolkit.model.blind_spots import BlindSpot, ScanGap
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Coverage, Environment
from toolkit.model.result import Result
from toolkit.model.verdict import Measure, Outcome, Verdict, rank, worst
from toolkit.model.windows import ClaimSum, WindowFound, WindowSums
from toolkit.session.windows import gone
from toolkit.session.windows.counters import KEPT_WINDOWS
from toolkit.session.windows.gone import Kept
from toolkit.timeline.ran import Ran

MAX_WORST = 20
"""Windows that are named one by one."""
MAX_REASONS = 5
MAX_SPOTS = 100
"""Blind spots that are listed; their texts hold times, so each window may have its own."""
MORE_SPOTS = "and more, in other windows"
_SUMMED = (
    *("switches_judged", "switches_kernel", "switches_skew", "switches_untraced", "lost_events", "map_full"),
    "switches_kernel_least",
    *(
        "missed_runs",
        "proc_scans",
        "file_readings",
        "cgroup_moves_dropped",
        "leaves_dropped",
        "affinity_changes_dropped",
    ),
    "control_writes_dropped",
    *("softirqs_judged", "softirqs_kernel", "softirqs_skew"),
)
_LARGEST = ("window_skew_ns", "witness_skew_ns", "file_gap_ns", "file_unwatched_ns")


class Sums:
    """Add windows in their order with :meth:`add`; :meth:`result` is that of all so far."""

    def __init__(self) -> None:
        self.count = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._worst: list[WindowFound] = []
        self._verdicts: dict[tuple[str, str], Kept] = {}
        self._claims: dict[str, ClaimSum] = {}
        self._named: dict[str, int] = {}
        """Subject -> how many windows there were when one named it last."""
        self._gone = gone.Gone()
        self._coverage: Coverage | None = None
        self._environment: Environment | None = None
        self._started_at = ""
        self._duration_s = 0.0
        self._unseen = CpuSet()

    @property
    def outcome(self) -> Outcome:
        """The worst so far."""
        return worst(self._outcomes)

    def add(self, number: int, result: Result, rows: Iterable[Ran]) -> None:
        """Add one window, as it was read back. :param number: from 1 on. :param rows: what ran in it."""
        self.count += 1
        self._outcomes[result.outcome] += 1
        self._started_at = self._started_at or result.started_at
        self._duration_s += result.duration_s
        self._environment = result.environment
        if result.outcome in (Outcome.FAILED, Outcome.UNDECIDED):
            self._worst.append(_found(number, result))
            # A stable order: of windows that are as bad the earlier ones stay.
            self._worst = sorted(self._worst, key=lambda one: rank(one.outcome))[:MAX_WORST]
        for verdict in result.verdicts:
            self._keep_worst(verdict, number, result.started_at)
        for row in rows:
            self._named[row.claim] = self.count
            one = ClaimSum(
                claim=row.claim,
                switches=row.row.switches,
                run_ns=row.row.run_ns,
                out_of_set_switches=row.out_switches,
                out_of_set_ns=row.out_ns,
                out_of_set_longest_ns=row.out_longest_ns,
                transition_ns=row.transition_ns,
            )
            old = self._claims.get(row.claim)
            self._claims[row.claim] = one if old is None else gone.added(old, one)
        self._unseen |= result.coverage.cpus_online - result.coverage.cpus_seen
        self._coverage = added(self._coverage, result.coverage)
        self._named |= dict.fromkeys((gap.claim for gap in result.coverage.scan_gaps), self.count)
        self._forget()

    def _forget(self) -> None:
        """Sum up subjects that the last windows did not name."""
        old = frozenset(subject for subject, window in self._named.items() if window <= self.count - KEPT_WINDOWS)
        if not old:
            return
        self._named = {subject: window for subject, window in self._named.items() if subject not in old}
        self._gone.verdicts(self._verdicts, old)
        self._gone.claims(self._claims, old)
        if self._coverage is not None:
            self._coverage = replace(self._coverage, scan_gaps=gone.gaps_without(self._coverage.scan_gaps, old))

    def _keep_worst(self, verdict: Verdict, number: int, at: str) -> None:
        key = (verdict.rule, verdict.subject)
        self._named[verdict.subject] = self.count
        kept = self._verdicts.get(key)
        if kept is None:
            kept = self._verdicts[key] = Kept(verdict, number, at, Counter())
        kept.outcomes[verdict.outcome] += 1
        if verdict.outcome is Outcome.PASSED:
            kept.throughout.add(verdict.rule, verdict.measures)
        kept.take(verdict, number, at)

    def result(self) -> Result:
        """Return the result of all windows so far; there must be one."""
        assert self._coverage is not None
        assert self._environment is not None
        return Result(
            outcome=self.outcome,
            started_at=self._started_at,
            duration_s=self._duration_s,
            verdicts=(*(_summed(kept, self.count) for kept in self._verdicts.values()), *self._gone.totals()),
            coverage=replace(self._coverage, cpus_seen=self._coverage.cpus_online - self._unseen),
            environment=self._environment,
            windows=WindowSums(
                count=self.count,
                passed=self._outcomes[Outcome.PASSED],
                failed=self._outcomes[Outcome.FAILED],
                undecided=self._outcomes[Outcome.UNDECIDED],
                skipped=self._outcomes[Outcome.SKIPPED],
                worst=tuple(self._worst),
                claims=(*self._claims.values(), *self._gone.claim_sums()),
            ),
        )


def _found(number: int, result: Result) -> WindowFound:
    bad = [verdict for verdict in result.verdicts if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    bad.sort(key=lambda verdict: rank(verdict.outcome))
    return WindowFound(
        number=number,
        outcome=result.outcome,
        started_at=result.started_at,
        duration_s=result.duration_s,
        reasons=tuple(f"{one.rule} {one.subject} {one.outcome}: {one.reason}" for one in bad[:MAX_REASONS]),
    )


def _summed(kept: Kept, count: int) -> Verdict:
    """The worst verdict of all windows, with how many were as bad, and the offenders of the one that is named.

    What passed has measures that are true of every window that did; what did not has those of the window that decides,
    which their names say.
    """
    verdict, many = kept.verdict, kept.outcomes[kept.verdict.outcome]
    measures: dict[str, Measure] = {**kept.measures()}
    where = f"window {kept.window} of {count} ({kept.at})"
    where += f", and {many - 1} more {verdict.outcome}" if many > 1 else ""
    kept_all = verdict.outcome in (Outcome.PASSED, Outcome.SKIPPED)
    if count == 1:
        measures = {**verdict.measures, **measures}
        where = "" if kept_all else where
    elif kept_all:
        if kept.same:
            where = f"in each of {count} windows" if many == count else f"in {many} of {count} windows"
        measures |= kept.throughout.measures()
    else:
        measures |= {"window": kept.window, **{f"window_{name}": value for name, value in verdict.measures.items()}}
    return replace(verdict, reason=f"{where}: {verdict.reason}" if where else verdict.reason, measures=measures)


def added(total: Coverage | None, more: Coverage) -> Coverage:
    """Add the coverage of one more window: counts are summed, what bounds an error is the largest, blind spots once."""
    if total is None:
        return replace(more, blindness=tuple(_timeless(spot) for spot in more.blindness))
    latencies = (total.positive_control_latency_ms, more.positive_control_latency_ms)
    return replace(
        total,
        **{name: getattr(total, name) + getattr(more, name) for name in _SUMMED},
        **{name: max(getattr(total, name), getattr(more, name)) for name in _LARGEST},
        cpus_online=total.cpus_online | more.cpus_online,
        cpus_unsampled=total.cpus_unsampled | more.cpus_unsampled,
        # A bound that rests on the sampler holds for all windows only at the rate of the worst.
        sampler_hz=min(total.sampler_hz, more.sampler_hz),
        positive_control_latency_ms=max((one for one in latencies if one is not None), default=None),
        blind_spots=_texts(total.blind_spots, more.blind_spots),
        blindness=_spots(total.blindness, more.blindness),
        scan_gaps=_gaps(total.scan_gaps, more.scan_gaps),
    )


def _texts(total: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    both = tuple(dict.fromkeys((*total, *more)))
    return both if len(both) <= MAX_SPOTS else (*both[: MAX_SPOTS - 1], MORE_SPOTS)


def _timeless(spot: BlindSpot) -> BlindSpot:
    """A time since a window opened means nothing beside other windows."""
    return replace(spot, start_at_ns=None, end_at_ns=None)


def _spots(total: tuple[BlindSpot, ...], more: tuple[BlindSpot, ...]) -> tuple[BlindSpot, ...]:
    both = tuple(dict.fromkeys((*total, *map(_timeless, more))))
    return both if len(both) <= MAX_SPOTS else (*both[: MAX_SPOTS - 1], BlindSpot(text=MORE_SPOTS))


def _gaps(total: tuple[ScanGap, ...], more: tuple[ScanGap, ...]) -> tuple[ScanGap, ...]:
    """Keep the worst of each claim, with the scans of all windows."""
    found = {gap.claim: gap for gap in total}
    for gap in more:
        old = found.get(gap.claim)
        found[gap.claim] = gap if old is None else gone.worse_gap(old, gap)
    return tuple(found.values())
