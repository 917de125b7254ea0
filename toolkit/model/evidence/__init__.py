"""Evidence: what was observed, complete enough to be judged on another machine, without any judgement in it.

A module for each witness: its rows, its part of the evidence, its part of the coverage. :class:`Evidence` and
:class:`Coverage` are composed of these parts and nothing else makes their fields; in a file they are flat.

All times are CLOCK_MONOTONIC nanoseconds (what ``bpf_ktime_get_ns`` and ``time.monotonic_ns`` read), made relative to
the start of the observation where a field says ``_at_ns``. Counters are sums over the observation.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.claim_changes import ClaimChange
from toolkit.model.evidence.actions import ActionEvidence
from toolkit.model.evidence.cgroups import (
    BandwidthEvidence,
    BandwidthUse,
    CgroupFiles,
    CpuPressure,
    EndedUse,
    FileEvidence,
    PressureEvidence,
    ThrottledBelow,
    ThrottledPeriods,
)
from toolkit.model.evidence.controls import Canary, ControlEvidence
from toolkit.model.evidence.coverage import Coverage
from toolkit.model.evidence.delays import Culprit, CulpritClass, Delay, TimelineBins
from toolkit.model.evidence.following import FollowEvidence
from toolkit.model.evidence.interrupts import InterruptEvidence
from toolkit.model.evidence.masks import MaskEvidence, ThreadMask
from toolkit.model.evidence.memory import MemoryEvidence
from toolkit.model.evidence.node import HotplugEvent, HotplugEvidence, OwnEvidence, SystemEvidence, WaitEvidence
from toolkit.model.evidence.state_writes import StateWrite, StateWriteEvidence
from toolkit.model.evidence.stated import Runtime, StatedEvidence
from toolkit.model.evidence.switches import CpuUse, Intruder, Joinings, OwnerClass, SwitchEvidence, UsageBin
from toolkit.model.evidence.window import ClaimChangeEvidence, Environment, Transition, WindowEvidence
from toolkit.model.evidence.writes import ControlWrite, WriteEvidence
from toolkit.model.picture import Picture
from toolkit.model.serde import stage_value

__all__ = [
    "BandwidthUse",
    "Canary",
    "CgroupFiles",
    "ControlWrite",
    "Coverage",
    "CpuPressure",
    "CpuUse",
    "Culprit",
    "CulpritClass",
    "Delay",
    "EndedUse",
    "Environment",
    "Evidence",
    "HotplugEvent",
    "Intruder",
    "Joinings",
    "OwnerClass",
    "Runtime",
    "StateWrite",
    "ThreadMask",
    "ThrottledBelow",
    "ThrottledPeriods",
    "TimelineBins",
    "Transition",
    "UsageBin",
]


# Parts have no slots: a class can inherit from several only without. Fields come from the last part to the first.
@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(
    FollowEvidence,
    StatedEvidence,
    ControlEvidence,
    ClaimChangeEvidence,
    MemoryEvidence,
    StateWriteEvidence,
    WriteEvidence,
    ActionEvidence,
    InterruptEvidence,
    OwnEvidence,
    SystemEvidence,
    WaitEvidence,
    HotplugEvidence,
    BandwidthEvidence,
    PressureEvidence,
    FileEvidence,
    MaskEvidence,
    SwitchEvidence,
    WindowEvidence,
):
    """Everything observed in one run. ``duration_ns`` is the judged window."""

    coverage: Coverage
    transitions: tuple[Transition, ...] = ()
    picture: Picture | None = None
    """Set where there was no window: one reading of each source, nothing about time can be judged."""

    @property
    def changed(self) -> tuple[ClaimChange, ...]:
        """What was promised anew in the window."""
        return tuple(one for one in self.claim_changes if one.at_ns <= self.duration_ns)

    @property
    def renewed(self) -> tuple[ClaimChange, ...]:
        """What was promised anew when it had ended."""
        return tuple(one for one in self.claim_changes if one.at_ns > self.duration_ns)
