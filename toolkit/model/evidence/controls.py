"""What the controls give: both canaries, and how soon the planted escape was reported."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.serde import CpuId, stage_value

POSITIVE, CLEAN = "pinproof-canary-positive", "pinproof-canary-clean"
"""The names of their claims."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A control: a cgroup of ours with a claim that is deliberately false (``positive``) or true (``clean``).

    :param planted_switches: by the kernel's own count; negative: it did not run where it was put from one end of the
        window to the other.
    """

    positive: bool
    cpu: CpuId
    planted_at_ns: int
    reported_at_ns: int | None
    planted_switches: int
    out_of_set_switches: int
    run_ns: int = 0
    out_of_set_ns: int = 0


@stage_value
@dataclass(frozen=True, kw_only=True)
class ControlEvidence:
    """Empty where nothing was planted: one reading of each source, or an observer by itself."""

    canaries: tuple[Canary, ...] = ()


@stage_value
@dataclass(frozen=True, kw_only=True)
class ControlCoverage:
    """How soon a violation is reported in this window, by one that was planted."""

    positive_control_latency_ms: float | None = None
