"""Prometheus metrics of an observation that goes on: computed at scrape time from a snapshot, no global state.

Own registry, prefix ``pinproof_``, base units in names (seconds), counters since the window opened, verdicts as state
sets. Labels are rules, subjects, claims and CPUs only: no thread ids, so cardinality is bounded by the claims file.
Source: prometheus.io "Writing exporters" and "Metric and label naming".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.registry import Collector

from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.text import printable
from validators.registry import judge

PREFIX = "pinproof_"
FRESH_S = 0.5
"""Scrapes closer together than this get the same snapshot: a scrape must never become a load of its own."""
REQUEST_TIMEOUT_S = 5.0
Judge = Callable[[ClaimSet, Evidence], tuple[Verdict, ...]]


class EvidenceCollector(Collector):
    """Turns one snapshot into metric families; pure, apart from taking the snapshot."""

    def __init__(self, claims: ClaimSet, snapshot: Callable[[], Evidence], judge: Judge) -> None:
        self._claims, self._snapshot, self._judge = claims, snapshot, judge
        self._lock = threading.Lock()
        self._last: Evidence | None = None
        self._taken_s = 0.0

    def describe(self) -> list[Metric]:
        """Describe nothing: no snapshot is taken when the collector is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the families of a snapshot that is at most :data:`FRESH_S` old."""
        with self._lock:
            now = time.monotonic()
            if self._last is None or now - self._taken_s > FRESH_S:
                self._last, self._taken_s = self._snapshot(), now
            evidence = self._last
        return families(evidence, self._judge(self._claims, evidence))


def families(evidence: Evidence, verdicts: tuple[Verdict, ...]) -> Iterator[Metric]:
    """Yield every metric family of a piece of evidence and its verdicts."""
    yield from _coverage(evidence)
    yield from _claims(evidence)
    states = StateSetMetricFamily(
        PREFIX + "verdict", "Outcome of each rule for each subject.", labels=["rule", "subject"]
    )
    for verdict in verdicts:
        states.add_metric(
            [verdict.rule, _label(verdict.subject)],
            {str(outcome): verdict.outcome is outcome for outcome in Outcome},
        )
    yield states


def _coverage(evidence: Evidence) -> Iterator[Metric]:
    coverage = evidence.coverage
    for name, value, text in (
        ("switches_judged", coverage.switches_judged, "Context switches that the probe judged."),
        ("switches_kernel", coverage.switches_kernel, "Context switches that the kernel counted meanwhile."),
        ("lost_events", coverage.lost_events, "Details lost because the ring buffer was full."),
        ("map_full", coverage.map_full, "Counts lost because a map was full."),
        ("missed_runs", coverage.missed_runs, "Program runs that the kernel skipped."),
        ("proc_scans", coverage.proc_scans, "Scans of thread masks in /proc."),
        ("transitions", len(evidence.transitions), "Changes of claims that were watched."),
    ):
        yield CounterMetricFamily(PREFIX + name, text, value=value)
    yield CounterMetricFamily(PREFIX + "toolkit_cpu_seconds", "Own CPU time.", value=evidence.toolkit_cpu_ns / 1e9)
    yield CounterMetricFamily(PREFIX + "steal_seconds", "Time that the hypervisor took.", value=evidence.steal_ns / 1e9)
    if evidence.bpf_run_ns is not None:
        run = evidence.bpf_run_ns / 1e9
        yield CounterMetricFamily(PREFIX + "bpf_run_seconds", "Run time of the BPF programs.", value=run)
    yield GaugeMetricFamily(PREFIX + "window_seconds", "Length of the window so far.", value=evidence.duration_ns / 1e9)
    unseen = len(coverage.cpus_online - coverage.cpus_seen)
    yield GaugeMetricFamily(PREFIX + "unseen_cpus", "Online CPUs that were never seen.", value=unseen)
    if coverage.positive_control_latency_ms is not None:
        yield GaugeMetricFamily(
            PREFIX + "positive_control_latency_seconds",
            "How long the planted escape took to be reported.",
            value=coverage.positive_control_latency_ms / 1e3,
        )
    info = GaugeMetricFamily(PREFIX + "environment_info", "The machine.", labels=["kernel", "cgroup", "version"])
    environment = evidence.environment
    info.add_metric([_label(environment.kernel), environment.cgroup, _label(environment.pinproof)], 1)
    yield info


def _claims(evidence: Evidence) -> Iterator[Metric]:
    labels = ["claim", "cpu"]
    run = CounterMetricFamily(PREFIX + "run_seconds", "CPU time of a claim by the ledger.", labels=labels)
    switches = CounterMetricFamily(PREFIX + "switches", "Switches of a claim's tasks that were judged.", labels=labels)
    out = CounterMetricFamily(PREFIX + "out_of_set_switches", "Intervals outside the claim's CPUs.", labels=labels)
    out_s = CounterMetricFamily(PREFIX + "out_of_set_seconds", "Time outside the claim's CPUs.", labels=labels)
    moving = CounterMetricFamily(PREFIX + "transition_seconds", "Time that belongs to a change.", labels=labels)
    for row in evidence.cpu_use:
        values = [_label(row.claim), str(row.cpu)]
        run.add_metric(values, row.run_ns / 1e9)
        switches.add_metric(values, row.switches)
        out.add_metric(values, row.out_of_set_switches)
        out_s.add_metric(values, row.out_of_set_ns / 1e9)
        moving.add_metric(values, row.transition_ns / 1e9)
    yield from (run, switches, out, out_s, moving)
    intruders = CounterMetricFamily(
        PREFIX + "intruder_seconds", "Time of tasks without a claim on watched CPUs.", labels=["cpu", "owner"]
    )
    totals: dict[tuple[int, str], int] = {}
    for intruder in evidence.intruders:
        key = (intruder.cpu, str(intruder.owner))
        totals[key] = totals.get(key, 0) + intruder.total_ns
    for (cpu, owner), total in sorted(totals.items()):
        intruders.add_metric([str(cpu), owner], total / 1e9)
    yield intruders
    levels = ["claim", "level"]
    usage = CounterMetricFamily(PREFIX + "cgroup_usage_seconds", "CPU time by the cgroup.", labels=levels)
    periods = CounterMetricFamily(PREFIX + "cfs_periods", "CFS bandwidth periods.", labels=levels)
    throttled = CounterMetricFamily(PREFIX + "cfs_throttled_periods", "Throttled periods.", labels=levels)
    for level in evidence.bandwidth:
        values = [_label(level.claim), str(level.level)]
        if level.usage_ns is not None:
            usage.add_metric(values, level.usage_ns / 1e9)
        if level.nr_periods is not None:
            periods.add_metric(values, level.nr_periods)
        if level.nr_throttled is not None:
            throttled.add_metric(values, level.nr_throttled)
    yield from (usage, periods, throttled)


def _label(text: str) -> str:
    """Make a label of a stranger's text: one line for everybody. The client escapes what the format needs."""
    return printable(text)


def registry_of(claims: ClaimSet, snapshot: Callable[[], Evidence], judge: Judge) -> CollectorRegistry:
    """Return a registry of its own that holds nothing but this observation."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EvidenceCollector(claims, snapshot, judge))
    return registry


class MetricsServer:
    """Serves the metrics while the block runs; does nothing if ``port`` is ``None``. Port 0 takes a free one."""

    def __init__(
        self,
        claims: ClaimSet,
        snapshot: Callable[[], Evidence],
        address: str = "127.0.0.1",
        port: int | None = None,
        judge: Judge = judge,
    ) -> None:
        self._wanted = port
        self._address = address
        self._registry = registry_of(claims, snapshot, judge)
        self._server: WSGIServer | None = None

    @property
    def port(self) -> int | None:
        """The port that is served, ``None`` if none is."""
        return None if self._server is None else self._server.server_port

    def __enter__(self) -> MetricsServer:
        if self._wanted is not None:
            try:
                self._server, _ = start_http_server(self._wanted, self._address, self._registry)
            except (OSError, OverflowError, UnicodeError) as error:
                where = f"metrics on {self._address}:{self._wanted}"
                text = getattr(error, "strerror", None) or str(error)
                raise InputError(where, text, "an address and port that are free") from None
            # prometheus_client waits for a request without end: whoever connects and is silent would keep a thread.
            handler: type = self._server.RequestHandlerClass  # type: ignore[assignment]
            self._server.RequestHandlerClass = type("_Handler", (handler,), {"timeout": REQUEST_TIMEOUT_S})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
