"""What counts on from window to window, for metrics: sums of the evidence, outcomes of windows and verdicts.

Their size depends on the number of claims, CPUs and rules. Source: prometheus.io "Writing exporters".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from toolkit.model.evidence import BandwidthUse, CpuUse, Evidence, Intruder
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome

Key = tuple[str, ...]
COVERAGE = ("switches_judged", "switches_kernel", "lost_events", "map_full", "missed_runs", "proc_scans")


@dataclass(slots=True)
class Counters:
    """Sums by metric and labels; times in nanoseconds."""

    sums: Counter[tuple[str, Key]] = field(default_factory=Counter)
    windows: Counter[Outcome] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str, Outcome]] = field(default_factory=Counter)
    bpf: bool = False
    """The kernel measured the run time of the programs in one window at least."""

    def copy(self) -> Counters:
        """Return one that does not change with this one."""
        return Counters(Counter(self.sums), Counter(self.windows), Counter(self.verdicts), self.bpf)

    def add(self, evidence: Evidence) -> None:
        """Add what was seen in a window, or has been so far."""
        coverage = evidence.coverage
        for name in COVERAGE:
            self.sums[name, ()] += getattr(coverage, name)
        self.sums["transitions", ()] += len(evidence.transitions)
        self.sums["toolkit_cpu", ()] += evidence.toolkit_cpu_ns
        self.sums["steal", ()] += evidence.steal_ns
        self.sums["watched", ()] += evidence.duration_ns
        if evidence.bpf_run_ns is not None:
            self.bpf = True
            self.sums["bpf_run", ()] += evidence.bpf_run_ns
        self._cpu_use(evidence.cpu_use)
        self._intruders(evidence.intruders)
        self._bandwidth(evidence.bandwidth)

    def judged(self, result: Result) -> None:
        """Count the outcome of a window that has ended, and of its verdicts."""
        self.windows[result.outcome] += 1
        for verdict in result.verdicts:
            self.verdicts[verdict.rule, verdict.subject, verdict.outcome] += 1

    def _cpu_use(self, rows: Iterable[CpuUse]) -> None:
        for row in rows:
            key = (row.claim, str(row.cpu))
            self.sums["run", key] += row.run_ns
            self.sums["switches", key] += row.switches
            self.sums["out_of_set_switches", key] += row.out_of_set_switches
            self.sums["out_of_set", key] += row.out_of_set_ns
            self.sums["transition", key] += row.transition_ns

    def _intruders(self, rows: Iterable[Intruder]) -> None:
        for row in rows:
            self.sums["intruder", (str(row.cpu), str(row.owner))] += row.total_ns

    def _bandwidth(self, rows: Iterable[BandwidthUse]) -> None:
        for row in rows:
            key = (row.claim, str(row.level))
            for name, value in (("usage", row.usage_ns), ("periods", row.nr_periods), ("throttled", row.nr_throttled)):
                if value is not None:
                    self.sums[name, key] += value


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is known of a session at one moment.

    :param counters: of the windows that have ended. :param open: the evidence of the open one so far, if there is one.
    :param last: the result of the last window that was judged.
    """

    counters: Counters = field(default_factory=Counters)
    open: Evidence | None = None
    last: Result | None = None
