"""Prometheus metrics of a session that goes on: computed at scrape time from one reading of its state, nothing global.

Own registry, prefix ``pinproof_``, base units in names (seconds), counters since the first window opened, verdicts as
state sets. Labels are rules, subjects, claims, witnesses and CPUs only, no thread ids; where claims have series also
namespace, pod and container, which join kube-state-metrics and cAdvisor. By rule a node has at most :data:`MAX_SERIES`;
by claim so many pairs of claim and CPU, and of rule and subject, have series of their own; the rest is a sum by claim,
by rule (:mod:`toolkit.session.windows.series`).
What the exporter cannot see is a metric, too (:mod:`toolkit.report.metrics_sight`).
Source: prometheus.io "Writing exporters" and "Metric and label naming".
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.registry import Collector

from toolkit.model.claims import Claim, ClaimSet, SubjectKind
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict, worst
from toolkit.report.metrics_sight import PREFIX, sight
from toolkit.report.metrics_waits import histograms
from toolkit.report.text import printable
from toolkit.session.windows.counters import BY_CPU, Counters, SessionState
from toolkit.session.windows.series import OTHER, Series

FRESH_S = 0.5
"""Scrapes closer together than this get the same state: a scrape must never become a load of its own."""
MAX_SERIES = 250
"""Of a node whose metrics are by rule, whatever runs there; the dashboard's and the alerts' numbers are among them."""
Judge = Callable[[ClaimSet, Evidence], tuple[Verdict, ...]]
Promised = Callable[[], ClaimSet]
"""What is promised at this moment; asked by any thread. Claims of a source that is followed come and go."""


class SessionCollector(Collector):
    """Turns one state of a session into metric families; pure, apart from reading it.

    Where reading fails, whatever the reason, the sums of the state before are served and ``pinproof_observer_up`` is 0:
    an answer without values, or an error, would look like any other pause of the network.
    """

    def __init__(self, claims: Promised, read_state: Callable[[], SessionState], judge: Judge) -> None:
        self._claims, self._read_state, self._judge = claims, read_state, judge
        self._lock = threading.Lock()
        self._last: SessionState | None = None
        self._promised = ClaimSet(claims=())
        self._verdicts: tuple[Verdict, ...] = ()
        self._taken_s = 0.0
        self._over = False

    def describe(self) -> list[Metric]:
        """Describe nothing: the registry calls this at registration, when there are no values yet."""
        return []

    def collect(self, *, native: bool = False) -> Iterator[Metric]:
        """Yield the families of a state that is at most :data:`FRESH_S` old.

        :param native: for a format that has native histograms.
        """
        with self._lock:
            now = time.monotonic()
            if self._last is None or now - self._taken_s > FRESH_S:
                self._take()
                self._taken_s = now
            state, verdicts, promised = self._last or SessionState(), self._verdicts, self._promised
        return families(state, verdicts, promised, native=native)

    def end(self) -> None:
        """Report from now on that the observer has ended; the sums stay."""
        with self._lock:
            self._take()
            self._over = True
            self._last = (self._last or SessionState()).ended()

    def _take(self) -> None:
        try:
            if self._over:
                return
            # Before the state is read: whatever is promised by then has been observed from then on.
            promised = self._promised = self._claims()
            state = self._read_state()
            if state.last is not None:
                self._verdicts = state.last.verdicts
            elif state.open is not None:
                self._verdicts = self._judge(promised, state.open)
            self._last = state
        except Exception:  # of any kind: the metric that says so is the report
            self._last = (self._last or SessionState()).ended()


_NOTHING = ClaimSet(claims=())
PLACE = ("namespace", "pod", "container")
"""What kube-state-metrics and cAdvisor call whose a series is."""


@dataclass(frozen=True, slots=True)
class _Places:
    """The labels of :data:`PLACE`, by the name of a claim; those of what is no claim, or of no pod, are empty.

    :param claims: by name; ``None``: claims have no series of their own, and there are no such labels.
    """

    claims: Mapping[str, Claim] | None

    @property
    def names(self) -> tuple[str, ...]:
        return () if self.claims is None else PLACE

    def of(self, name: str) -> tuple[str, ...]:
        if self.claims is None:
            return ()
        claim = self.claims.get(name)
        if claim is None:
            return ("",) * len(PLACE)
        pod = claim.pod.removeprefix(f"{claim.namespace}/") if claim.namespace else claim.pod
        inside = claim.kind in (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL)
        return _label(claim.namespace), _label(pod), _label(claim.container if inside else "")


def families(
    state: SessionState, verdicts: tuple[Verdict, ...], promised: ClaimSet = _NOTHING, *, native: bool = False
) -> Iterator[Metric]:
    """Yield every metric family of a state.

    :param verdicts: of the last window, or of the first so far. :param promised: what is promised now.
    :param native: with native histograms.
    """
    counters = state.counters.copy()
    if state.open is not None:
        counters.add_open(state.open)
        counters.promised(promised if state.promised is None else state.promised, state.open)
    counters.claims |= {one.name: one for one in promised.claims}
    places = _Places(counters.claims if counters.series.by_claim else None)
    yield from sight(state)
    yield from _coverage(counters)
    yield from _claims(counters, places)
    yield from histograms(counters, places.names, places.of, native=native)
    yield from _windows(state.counters, places)
    if state.open is not None:
        yield from _open(state.open)
    yield from _verdicts(verdicts, state.counters.series, places)


def _verdicts(verdicts: tuple[Verdict, ...], series: Series, places: _Places) -> Iterator[Metric]:
    states = StateSetMetricFamily(
        PREFIX + "verdict",
        "Outcome of each rule for each subject: of the last window that has ended, of the first one so far. "
        f'Of those that are summed up (subject="{OTHER}") the worst.',
        labels=["rule", "subject", *places.names],
    )
    found = defaultdict[tuple[str, str], list[Outcome]](list)
    for verdict in verdicts:
        found[series.of_verdict(verdict.rule, verdict.subject)].append(verdict.outcome)
    for (rule, subject), outcomes in found.items():
        worst_one = worst(outcomes)
        labels = [rule, _label(subject), *places.of(subject)]
        states.add_metric(labels, {str(outcome): outcome is worst_one for outcome in Outcome})
    yield states
    yield GaugeMetricFamily(
        PREFIX + "summed_verdicts",
        f'Pairs of rule and subject that began without own series: subject="{OTHER}" of the rule is their sum.',
        value=series.summed_verdicts(),
    )


def _windows(counters: Counters, places: _Places) -> Iterator[Metric]:
    windows = CounterMetricFamily(PREFIX + "windows", "Windows that have ended, by outcome.", labels=["outcome"])
    for outcome in Outcome:
        windows.add_metric([str(outcome)], counters.windows[outcome])
    verdicts = CounterMetricFamily(
        PREFIX + "window_verdicts",
        "Verdicts about windows that have ended, by outcome.",
        labels=["rule", "subject", "outcome", *places.names],
    )
    for rule, subject in dict.fromkeys((rule, subject) for rule, subject, _ in counters.verdicts):
        for outcome in Outcome:
            # Also those that have not come yet: the first one would else be a new series, which no rate() sees.
            labels = [rule, _label(subject), str(outcome), *places.of(subject)]
            verdicts.add_metric(labels, counters.verdicts[rule, subject, outcome])
    yield from (windows, verdicts)


def _coverage(counters: Counters) -> Iterator[Metric]:
    for name, text in (
        ("switches_judged", "Context switches that the probe judged."),
        ("switches_kernel", "Context switches that the kernel counted meanwhile."),
        ("lost_events", "Details lost because the ring buffer was full."),
        ("map_full", "Counts lost because a map was full."),
        ("missed_runs", "Program runs that the kernel skipped."),
        ("proc_scans", "Scans of thread masks in /proc."),
        ("transitions", "Changes of claims that were watched."),
    ):
        yield CounterMetricFamily(PREFIX + name, text, value=counters.sums[name, ()])
    for name, text in (
        ("toolkit_cpu", "Own CPU time."),
        ("canary", "CPU time of the two controls."),
        ("steal", "Time that the hypervisor took."),
        ("watched", "Length of all windows, the open one so far."),
        *([("bpf_run", "Run time of the BPF programs.")] if counters.bpf else []),
    ):
        yield CounterMetricFamily(f"{PREFIX}{name}_seconds", text, value=counters.sums[name, ()] / 1e9)


def _open(evidence: Evidence) -> Iterator[Metric]:
    coverage = evidence.coverage
    yield GaugeMetricFamily(PREFIX + "window_seconds", "Length of the window so far.", value=evidence.duration_ns / 1e9)
    unseen = len(coverage.cpus_online - coverage.cpus_seen)
    yield GaugeMetricFamily(PREFIX + "unseen_cpus", "Online CPUs that were never seen.", value=unseen)
    if coverage.positive_control_latency_ms is not None:
        yield GaugeMetricFamily(
            PREFIX + "positive_control_latency_seconds",
            "How long the planted escape took to be reported.",
            value=coverage.positive_control_latency_ms / 1e3,
        )
    environment, identity = evidence.environment, evidence.environment.identity
    labels = {
        "kernel": environment.kernel,
        "cgroup": environment.cgroup,
        "version": environment.pinproof,
        "node": "" if identity is None else identity.node,
        "hardware": "" if identity is None or identity.hardware is None else identity.hardware.name,
        "kubelet": "" if identity is None else identity.kubelet,
    }
    info = GaugeMetricFamily(PREFIX + "environment_info", "The machine and its class.", labels=list(labels))
    info.add_metric(list(map(_label, labels.values())), 1)
    yield info
    yield from _worst(evidence)


def _worst(evidence: Evidence) -> Iterator[Metric]:
    """Yield what a sum over claims or CPUs would hide, of the window so far."""
    throttled = [
        row.nr_throttled / row.nr_periods
        for row in evidence.bandwidth
        if row.level == 0 and row.nr_periods and row.nr_throttled is not None
    ]
    yield GaugeMetricFamily(
        PREFIX + "worst_throttled_ratio",
        "Share of its periods in which the claim that was throttled most was.",
        value=max(throttled, default=0),
    )
    foreign = GaugeMetricFamily(
        PREFIX + "worst_intruder_ratio",
        "Share of the window that tasks without a claim took of the watched CPU of which they took most.",
        labels=["owner"],
    )
    by_cpu = Counter[tuple[str, int]]()
    for row in evidence.intruders:
        by_cpu[str(row.owner), row.cpu] += row.total_ns
    for owner in sorted({owner for owner, _ in by_cpu}):
        most_ns = max(total_ns for (one, _), total_ns in by_cpu.items() if one == owner)
        foreign.add_metric([owner], most_ns / max(evidence.duration_ns, 1))
    yield foreign


_LABELLED = (
    ("run", "run_seconds", "CPU time of a claim by the ledger.", ("claim", "cpu")),
    ("switches", "switches", "Switches of a claim's tasks that were judged.", ("claim", "cpu")),
    ("out_of_set_switches", "out_of_set_switches", "Intervals outside the claim's CPUs.", ("claim", "cpu")),
    ("out_of_set", "out_of_set_seconds", "Time outside the claim's CPUs.", ("claim", "cpu")),
    ("transition", "transition_seconds", "Time that belongs to a change.", ("claim", "cpu")),
    ("wait", "wait_seconds", "Time that a claim's tasks were runnable and waited for the CPU.", ("claim", "cpu")),
    ("migrations", "migrations", "Moves of a claim's tasks to another CPU, by what ran there.", ("claim", "cpu")),
    ("intruder", "intruder_seconds", "Time of tasks without a claim on watched CPUs.", ("cpu", "owner")),
    ("usage", "cgroup_usage_seconds", "CPU time by the cgroup.", ("claim", "level")),
    ("periods", "cfs_periods", "CFS bandwidth periods.", ("claim", "level")),
    ("throttled", "cfs_throttled_periods", "Throttled periods.", ("claim", "level")),
    ("throttled_time", "cfs_throttled_seconds", "Time out of quota, of each CPU.", ("claim", "level")),
)
"""Sum, metric, help, labels."""


def _claims(counters: Counters, places: _Places) -> Iterator[Metric]:
    found = {
        name: CounterMetricFamily(
            PREFIX + metric, text, labels=(*labels, *(places.names if labels[0] == "claim" else ()))
        )
        for name, metric, text, labels in _LABELLED
    }
    seconds = {name for name, metric, _, _ in _LABELLED if metric.endswith("_seconds")}
    for (name, key), value in counters.sums.items():
        if name in found:
            own = () if name in BY_CPU else places.of(key[0])
            found[name].add_metric([*map(_label, key), *own], value / 1e9 if name in seconds else value)
    yield from found.values()
    yield GaugeMetricFamily(
        PREFIX + "summed_series",
        f'Pairs of claim and CPU without series of their own: cpu="{OTHER}" of the claim is their sum.',
        value=counters.series.summed(),
    )


def _label(text: str) -> str:
    """Make a label of a stranger's text: one line for everything. The client escapes what the format needs."""
    return printable(text)


def registry_of(claims: Promised, read_state: Callable[[], SessionState], judge: Judge) -> CollectorRegistry:
    """Return a registry of its own that holds nothing but this session."""
    return registered(SessionCollector(claims, read_state, judge))


class WithNative(Collector):
    """The same session for a format that has native histograms."""

    def __init__(self, collector: SessionCollector) -> None:
        self._collector = collector

    def describe(self) -> list[Metric]:
        """Describe nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        return self._collector.collect(native=True)


def registered(collector: Collector) -> CollectorRegistry:
    """Return a registry of its own that holds nothing but this collector."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
