"""What counts on from window to window, for metrics: sums of the evidence, outcomes of windows and verdicts.

Their size depends on the number of claims, CPUs and rules: what is about a subject of which no window says anything any
more is forgotten, so that containers that come and go do not add up. Pairs of claim and CPU, and of rule and subject,
are bounded (:mod:`toolkit.session.windows.series`). Source: prometheus.io "Writing exporters".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from toolkit.model.blind_spots import Witness
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import BandwidthUse, Delay, Evidence, Intruder
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome
from toolkit.session.windows.series import OTHER, Series
from toolkit.timeline.ran import Ran, as_counted, asked, without_outside

Key = tuple[str, ...]
COVERAGE = ("switches_judged", "switches_kernel", "lost_events", "map_full", "missed_runs", "proc_scans")
WAITS, WAITS_NS = "waits", "waits_ns"
"""By claim and kind (woken, preempted): how many waits were in each bucket, and how long they were together."""
BY_CPU = frozenset({"intruder"})
"""Sums whose first label is a CPU; that of all others is a claim."""
KEPT_WINDOWS = 20
"""So many windows after the last one that names a subject its counters are forgotten: the last scrape has them."""


@dataclass(slots=True)
class Counters:
    """Sums by metric and labels; times in nanoseconds."""

    sums: Counter[tuple[str, Key]] = field(default_factory=Counter)
    windows: Counter[Outcome] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str, Outcome]] = field(default_factory=Counter)
    bpf: bool = False
    """The kernel measured the run time of the programs in one window at least."""
    blind: Counter[Witness] = field(default_factory=Counter)
    """Windows in which each witness was doubtful."""
    controls_missed: int = 0
    """Windows that did not report the escape that was planted."""
    named: dict[str, int] = field(default_factory=dict)
    """Subject -> number of the last window that named it."""
    series: Series = field(default_factory=Series)
    claims: dict[str, Claim] = field(default_factory=dict)
    """Of what is counted, by name: whose it is."""

    def copy(self) -> Counters:
        """Return one that does not change with this one; what has a series of its own has it in both."""
        return replace(
            self,
            sums=Counter(self.sums),
            windows=Counter(self.windows),
            verdicts=Counter(self.verdicts),
            blind=Counter(self.blind),
            named=dict(self.named),
            claims=dict(self.claims),
        )

    def promised(self, claims: ClaimSet, evidence: Evidence) -> None:
        """Note whose claims they are: those of a window, and those that came in it."""
        self.claims |= {one.name: one for one in claims.claims}
        self.claims |= {one.claim.name: one.claim for one in evidence.changed}

    def add_open(self, evidence: Evidence) -> None:
        """Add what has been seen so far in a window that is open.

        Where a node is followed, what is outside a claim may be promised by the next reading: it counts when the window
        has ended, by the timeline, and no counter goes back.
        """
        rows = map(as_counted, evidence.cpu_use)
        self.add(evidence, rows if evidence.following is None else map(without_outside, rows))

    def add(self, evidence: Evidence, rows: Iterable[Ran]) -> None:
        """Add what was seen in a window. :param rows: what ran in it, by the timeline."""
        coverage = evidence.coverage
        for name in COVERAGE:
            self.sums[name, ()] += getattr(coverage, name)
        self.sums["transitions", ()] += len(evidence.transitions)
        self.sums["toolkit_cpu", ()] += evidence.toolkit_cpu_ns
        self.sums["steal", ()] += evidence.steal_ns
        self.sums["watched", ()] += evidence.duration_ns
        self.sums["canary", ()] += sum(canary.run_ns for canary in evidence.canaries)
        if evidence.bpf_run_ns is not None:
            self.bpf = True
            self.sums["bpf_run", ()] += evidence.bpf_run_ns
        self._cpu_use(rows)
        for row in evidence.delays:
            key = self.series.of(row.claim, row.cpu)
            self.sums["wait", key] += row.wait_ns
            self.sums["migrations", key] += row.migrations
            self._waits(row)
        self._intruders(evidence.intruders)
        self._bandwidth(evidence.bandwidth)

    def judged(self, result: Result) -> None:
        """Count the outcome of a window that has ended, and of its verdicts."""
        self.windows[result.outcome] += 1
        number = self.windows.total()
        for verdict in result.verdicts:
            self.verdicts[*self.series.of_verdict(verdict.rule, verdict.subject), verdict.outcome] += 1
            if verdict.outcome is Outcome.FAILED:
                # There from now on: what it counts next is a rise.
                self.verdicts[*self.series.of_failed(verdict.rule, verdict.subject), verdict.outcome] += 0
            self.named[verdict.subject] = number
        self.blind.update({witness for spot in result.coverage.blindness for witness in spot.witnesses})
        self.controls_missed += result.coverage.positive_control_latency_ms is None
        self._forget()

    def _forget(self) -> None:
        """Forget subjects that the last windows did not name."""
        oldest = self.windows.total() - KEPT_WINDOWS
        gone = {subject for subject, window in self.named.items() if window <= oldest}
        if not gone:
            return
        self.named = {subject: window for subject, window in self.named.items() if subject not in gone}
        self.claims = {name: claim for name, claim in self.claims.items() if name not in gone}
        self.series.forget(gone)
        # The sum of a rule is of whatever there was: it stays, also where a subject has its name.
        self.verdicts = Counter(
            {key: count for key, count in self.verdicts.items() if key[1] == OTHER or key[1] not in gone}
        )
        self.sums = Counter(
            {
                (name, key): value
                for (name, key), value in self.sums.items()
                if name in BY_CPU or gone.isdisjoint(key[:1])
            }
        )

    def _cpu_use(self, rows: Iterable[Ran]) -> None:
        number = self.windows.total()
        for row in rows:
            key = self.series.of(row.claim, row.cpu)
            self.named[row.claim] = number
            self.sums["run", key] += row.row.run_ns
            self.sums["switches", key] += row.row.switches
            self.sums["transition", key] += row.transition_ns
            key = self.series.of_broken(row.claim, row.cpu, counts=bool(row.out_switches or row.out_ns))
            self.sums["out_of_set_switches", key] += row.out_switches
            self.sums["out_of_set", key] += row.out_ns

    def _waits(self, row: Delay) -> None:
        claim = self.series.of_waits(row.claim)
        for kind, counts, total_ns in (
            ("woken", row.woken, row.woken_ns),
            ("preempted", row.preempted, row.preempted_ns),
        ):
            self.sums[WAITS_NS, (claim, kind)] += total_ns
            for bucket, number in enumerate(counts or (0,)):
                self.sums[WAITS, (claim, kind, str(bucket))] += number

    def _intruders(self, rows: Iterable[Intruder]) -> None:
        for row in rows:
            self.sums["intruder", self.series.of_intruder(row.cpu, str(row.owner))] += row.total_ns

    def _bandwidth(self, rows: Iterable[BandwidthUse]) -> None:
        number = self.windows.total()
        for row in rows:
            self.named[row.claim] = number
            key = self.series.of_level(row.claim, row.level)
            if key is None:
                continue
            for name, value in (
                ("usage", row.usage_ns),
                ("periods", row.nr_periods),
                ("throttled", row.nr_throttled),
                ("throttled_time", row.throttled_ns),
            ):
                if value is not None:
                    self.sums[name, key] += value


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """What is known of a session at one moment.

    :param counters: of the windows that have ended. :param open: the evidence of the open one so far, if there is one.
    :param promised: the claims as they were when the open one began.
    :param last: the result of the last window that was judged. :param window_s: how long a window is to be.
    """

    counters: Counters = field(default_factory=Counters)
    open: Evidence | None = None
    promised: ClaimSet | None = None
    last: Result | None = None
    window_s: float | None = None

    def ended(self) -> SessionState:
        """Return the same as it is known when nothing observes any more: what was open is among the sums."""
        counters = self.counters.copy()
        if self.open is not None:
            counters.add(self.open, asked(self.open).rows)
        return replace(self, counters=counters, open=None)
