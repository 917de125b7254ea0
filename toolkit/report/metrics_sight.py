"""Metrics of what the exporter sees, and of what it does not: blindness is a value, never a series that is missing.

A watch that has died serves nothing: then ``pinproof_observer_up`` itself is gone, which the alert rules take as such.
Source: prometheus.io "Writing exporters" (failed scrapes).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, StateSetMetricFamily

from toolkit.model.blind_spots import Witness
from toolkit.model.evidence import Coverage
from toolkit.model.verdict import Outcome
from toolkit.session.windows.counters import SessionState

PREFIX = "pinproof_"


def sight(state: SessionState) -> Iterator[Metric]:
    """Yield the families that are there in every answer, whatever can be seen."""
    yield GaugeMetricFamily(
        PREFIX + "observer_up",
        "Whether a window is open and could be read for this answer; if not, all sums are the last that were known.",
        value=state.open is not None,
    )
    yield GaugeMetricFamily(
        PREFIX + "judged_until_timestamp_seconds",
        "End of the last window that was judged; before it the start of the first; 0 if nothing was ever seen.",
        value=_judged_until_s(state),
    )
    if state.window_s is not None:
        yield GaugeMetricFamily(PREFIX + "window_planned_seconds", "How long a window is to be.", value=state.window_s)
    outcome = StateSetMetricFamily(
        PREFIX + "last_window", "Outcome of the last window that has ended; none of them before.", labels=[]
    )
    of_last = None if state.last is None else state.last.outcome
    outcome.add_metric([], {str(one): one is of_last for one in Outcome})
    yield outcome
    yield from _blindness(state)


def _blindness(state: SessionState) -> Iterator[Metric]:
    now = GaugeMetricFamily(
        PREFIX + "blind_spots",
        "What leaves a witness doubtful: in the last window that has ended, in the first one so far.",
        labels=["witness"],
    )
    ended = CounterMetricFamily(
        PREFIX + "blind_windows", "Windows that have ended in which a witness was doubtful.", labels=["witness"]
    )
    coverage = _coverage(state)
    for witness in Witness:
        spots = [] if coverage is None else [spot for spot in coverage.blindness if witness in spot.witnesses]
        now.add_metric([str(witness)], len(spots))
        ended.add_metric([str(witness)], state.counters.blind[witness])
    yield from (now, ended)
    yield CounterMetricFamily(
        PREFIX + "positive_control_missed_windows",
        "Windows that have ended and did not report the escape that was planted in them.",
        value=state.counters.controls_missed,
    )


def _coverage(state: SessionState) -> Coverage | None:
    if state.last is not None:
        return state.last.coverage
    return None if state.open is None else state.open.coverage


def _judged_until_s(state: SessionState) -> float:
    if state.last is not None:
        begun_s = _seconds(state.last.started_at)
        return 0.0 if begun_s is None else begun_s + state.last.duration_s
    return 0.0 if state.open is None else _seconds(state.open.started_at) or 0.0


def _seconds(started_at: str) -> float | None:
    """Seconds since 1970; ``None``: evidence that was not made by a window here may have no such time."""
    try:
        return datetime.fromisoformat(started_at).timestamp()
    except (ValueError, OverflowError):
        return None
