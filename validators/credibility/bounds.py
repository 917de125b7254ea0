"""How long a window was at most, and when a part is greater than its whole for certain."""

from __future__ import annotations

from toolkit.model.evidence import Evidence

CLOCK_SLACK_RATIO = 0.01
CLOCK_SLACK_NS = 20_000_000
"""A row's window is the observation's give or take the reading of its maps: 1 % and 20 ms; to it comes how long it took
to end the window on all CPUs, as measured (a jammed host needs hundreds of milliseconds)."""


def longest_ns(evidence: Evidence) -> float:
    """Return for how long anything can have been counted on one CPU."""
    skew_ns = max(0, evidence.coverage.window_skew_ns)
    return evidence.duration_ns * (1 + CLOCK_SLACK_RATIO) + CLOCK_SLACK_NS + skew_ns


def beyond(part_ns: float, whole_ns: float) -> bool:
    """Return whether a part is longer than its whole, by more than two readings of them can differ."""
    return part_ns > whole_ns * (1 + CLOCK_SLACK_RATIO) + CLOCK_SLACK_NS
