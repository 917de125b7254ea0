"""Evidence of a followed node: how often it was read, and what claims held beyond what was promised to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import Held
from toolkit.model.layers import LayerView
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLife:
    """A life of a claim that ended while the window was open: its container ended, or began anew in another cgroup.

    :param cgroup: of that life. :param until_ns: when its end was known; since the window opened.
    :param layers: what each layer stated of it, as :attr:`StatedEvidence.layers` does of the present life.
    """

    claim: str
    cgroup: str
    until_ns: int
    layers: tuple[LayerView, ...] = ()


ALLOCATION_ERRORS = "resource_manager_allocation_errors_total"
"""How the counters of allocations that failed begin, among the kubelet's metrics."""

ASSIGNMENTS = "resource_manager_container_assignments"
"""How the counters of containers by what was assigned to them begin."""

KUBELET_START = "process_start_time_seconds"
"""When the kubelet's process started: its counters are of that time on."""

UNREAD_NS = 15_000_000_000
"""So long a node may go unread before what it promises now is known, and has been written."""

LIMITS = "limits"
"""The part of :attr:`Following.missing` that names limits that are, or may be, asked for and are not promised."""

NOT_RECORDED = "does not record what `podman update` changes, so its word may be old"
"""What a part of :attr:`Following.missing` says that names a claim whose source may state what was promised before."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The kubelet's own metrics of its CPU manager beside its state file, for as long as both said the same.

    :param since_ns, until_ns: of the first and the last such reading; since the window opened, negative before it.
    :param values: by name with labels. :param problem: why there is none; empty: they were read.
    :param assigned: CPUs that the state file assigns. :param shared: those of its shared pool, without reserved ones.
        ``None``: not known.
    :param entered: how many containers were seen to come into the state file since the node is followed, by whose CPUs
        they got (``node``, ``pod``); empty: not known.
    """

    values: dict[str, float] = field(default_factory=dict)
    problem: str = ""
    assigned: CpuSet | None = None
    shared: CpuSet | None = None
    entered: dict[str, int] = field(default_factory=dict)
    since_ns: int = 0
    until_ns: int = 0


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How the source of the claims was followed in a window.

    :param source: ``kubelet``, ... :param readings: how often it was read and said what runs.
    :param unanswered: how often it was asked in vain; where it was not asked at all, the last time before.
    :param gap_ns: the longest time without such a reading: from the last one before the window, to the window's end.
    :param slack_ns: beyond the reconcile period, until a change that is late counts as missed.
    :param missing: what could not be read at the last reading and when it was asked in vain, a line each.
    :param last_reading_ns: when the last reading began whose word the window's claims have; since the window opened.
        ``None``: not written down (evidence of older versions); no longer before the end than ``gap_ns``.
    :param known_until_ns: when the latest reading began, also one that came after the window. What was promised later
        than that is not known.
    """

    source: str
    readings: int = 0
    unanswered: int = 0
    gap_ns: int = 0
    slack_ns: int = 0
    missing: tuple[str, ...] = ()
    last_reading_ns: int | None = None
    known_until_ns: int | None = None


@stage_value
@dataclass(frozen=True, kw_only=True)
class FollowEvidence:
    """Of one window; nothing where claims come from a file or a plan.

    :param held: what of the timeline reaches into the window, beside the claims and their changes: what had to be given
        back, what may have been held before that was known, what was forgotten, what was being made.
    :param later: claims of cgroups that no reading of the window knew, by the reading after it: of containers that
        began at its end.
    """

    following: Following | None = None
    held: tuple[Held, ...] = ()
    later: tuple[Claim, ...] = ()
    ended_lives: tuple[EndedLife, ...] = ()
    gauges: tuple[Gauges, ...] = ()
