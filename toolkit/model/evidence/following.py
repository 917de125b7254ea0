"""Evidence of a followed node: how often it was read, and which claims held CPUs that now belong to another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import LayerView
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class GivingBack:
    """CPUs that a claim still had after they were promised away, as a shared pool has until the kubelet's reconcile.

    Time there is a transition's. Times are since the window opened, negative before it.

    :param since_ns: when the state file that says so was written, where that is known; else when it was read first.
    :param limit_ns: from when on it breaks the claim; at once, where the
        CPUs were its own and are another pod's, which no reconcile repairs.
    :param until_ns: when they had been given back; ``None``: not by the end of the window.
    """

    claim: str
    cpus: CpuSet
    since_ns: int
    limit_ns: int
    until_ns: int | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """CPUs that the source had given to a claim some time before that was known here, and watched as the claim's.

    A kubelet takes an ended pod's CPUs back into the shared pool and widens the pool's containers in one go.

    :param since_ns: when the reading began that did not say so yet: the CPUs were given later than that.
    :param until_ns: from when on they were watched as the claim's, or when the window was read; since it opened.
    """

    claim: str
    cpus: CpuSet
    since_ns: int
    until_ns: int


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


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """A container that the runtime had created and that did not run yet, by the cgroup that it gets.

    :param since_ns: of the first reading that said so, :param until_ns: of the last; since the window opened.
    """

    cgroup: str
    since_ns: int
    until_ns: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A container that asks for CPUs of its own, has a set of its own, and none by the state file.

    :param count: CPUs that it asks for. :param cpus: what it has.
    :param certain: the kubelet has it among the pods that it has allocated; else it may be one that has ended.
    :param since_ns: of the first reading that said so, negative before the window opened.
    :param until_ns: of the reading that did no longer; ``None``: not by the end of the window.
    """

    claim: str
    count: int
    cpus: CpuSet
    certain: bool
    since_ns: int = 0
    until_ns: int | None = None


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

    :param later: claims of cgroups that no reading of the window knew, by the reading after it: of containers that
        began at its end.
    :param renewed: what was promised anew when the window had ended, by the first readings after it: whatever promised
        it may have written it within the window. Times since the window opened.
    """

    following: Following | None = None
    giving_back: tuple[GivingBack, ...] = ()
    granted: tuple[Granted, ...] = ()
    making: tuple[Making, ...] = ()
    forgotten: tuple[Forgotten, ...] = ()
    later: tuple[Claim, ...] = ()
    renewed: tuple[ClaimChange, ...] = ()
    ended_lives: tuple[EndedLife, ...] = ()
    gauges: tuple[Gauges, ...] = ()
