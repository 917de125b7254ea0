"""What the witnesses of cgroups give: control files read back, and CPU time and throttling by the kernel's count."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

from toolkit.model.cgroup_manager import CgroupManager
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupFiles:
    """The control files of one cgroup as read at one moment; ``None`` where the file does not exist.

    ``quota_us`` is -1 for no quota (v2 ``max``). ``cpus`` is the request, ``cpus_effective`` what the kernel grants.
    """

    cgroup: str
    at_ns: int
    cpus: CpuSet | None = None
    cpus_effective: CpuSet | None = None
    mems: CpuSet | None = None
    mems_effective: CpuSet | None = None
    quota_us: int | None = None
    period_us: int | None = None
    burst_us: int | None = None
    weight: int | None = None
    shares: int | None = None
    memory_max_bytes: int | None = None
    idle: bool | None = None
    """``cpu.idle``: its tasks run only where nothing else wants the CPU, whatever its weight was."""
    partition: str | None = None
    """``cpuset.cpus.partition``: ``member``, ``root``, ``isolated``, or why one of these is invalid (v2)."""
    exclusive: CpuSet | None = None
    exclusive_effective: CpuSet | None = None
    """``cpuset.cpus.exclusive`` and what the kernel grants of it (v2)."""
    uclamp_min_percent: float | None = None
    uclamp_max_percent: float | None = None
    """``cpu.uclamp.*``: the least and the most that its tasks seem to use of a CPU when a frequency is chosen."""
    memory_high_bytes: int | None = None
    """``memory.high``: from here on its tasks are slowed down. As :attr:`memory_max_bytes` (v2)."""
    memory_min_bytes: int | None = None
    memory_low_bytes: int | None = None
    swap_max_bytes: int | None = None
    manager: CgroupManager = CgroupManager.UNKNOWN
    """The manager that wrote them, where that was read."""
    no_cpu_controller: str | None = None
    """Why a cgroup in which there are tasks has no cpu controller, and so neither quota nor weight; ``None``: it has
    one, or that is not known (also in runs from before it was read)."""

    @property
    def empty(self) -> bool:
        """Whether nothing could be read: there is no such cgroup. Its manager is said by its path, not by a file."""
        return all(value is None for value in _FILES(self))

    def says(self, other: CgroupFiles) -> bool:
        """Whether another reading found the same, whenever that was."""
        return _SAID(self) == _SAID(other)


SIDE = (
    *("idle", "partition", "exclusive", "exclusive_effective", "uclamp_min_percent", "uclamp_max_percent"),
    *("memory_high_bytes", "memory_min_bytes", "memory_low_bytes", "swap_max_bytes"),
)
"""Of files that hold no promise by themselves, but decide what one that does is worth: they are read at both ends of a
window, and where a write to one is reported."""
_FILES = attrgetter(*(one.name for one in fields(CgroupFiles) if one.name not in ("cgroup", "at_ns", "manager")))
_SAID = attrgetter(*(one.name for one in fields(CgroupFiles) if one.name != "at_ns"))


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledPeriods:
    """Bandwidth periods of which some were throttled, as closely as the counters were read (once a second, mostly).

    :param first, last: the kernel's periods (``nr_periods``), 1 being the first that ended in the window.
    :param throttled: how many of these were throttled; as many as they are: all.
    """

    first: int
    last: int
    throttled: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthUse:
    """Deltas of ``cpu.stat`` (v1: cpu.stat + cpuacct.usage) over the observation, for a claim's cgroup or an ancestor.

    :param level: 0 is the claim's own cgroup, 1 its parent, and so on.
    :param files: the bandwidth files of this level at the start of the window.
    :param window_ns: time between the two reads of this very file.
    :param system_ns: what of ``usage_ns`` was in the kernel, as far as timer ticks found it there.
    :param bpf_usage_ns: CPU time of the subtree by the ledger over the same window; ``None`` if not watched.
    """

    claim: str
    cgroup: str
    level: int
    window_ns: int
    usage_ns: int | None
    nr_periods: int | None
    nr_throttled: int | None
    throttled_ns: int | None
    nr_bursts: int | None = None
    burst_ns: int | None = None
    quota_us: int | None = None
    period_us: int | None = None
    burst_us: int | None = None
    bpf_usage_ns: int | None = None
    lives: int = 1
    """How many cgroups of this name the counters are summed over: it was deleted and made again in between."""
    system_ns: int | None = None
    unread_ns: int = 0
    """CPU time by the ledger, in neither usage: used between a cgroup's last reading and its end."""
    throttled_in: tuple[ThrottledPeriods, ...] = ()
    """Which of ``nr_periods`` were throttled, ascending; stretches of those that all were, and of those that some were.
    Empty: none, or runs from before it was kept."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class EndedUse:
    """What a life of a claim used that ended in this window and was followed by another life of the claim.

    :param from_ns, to_ns: when it was watched, since the window opened; one that stood then from 0 on.
    :param levels: as of a life that goes on, its own cgroup first. ``unread_ns`` of that is what it used after its
        counters were read last; where they were not read twice no counter is known, and that is all it used.
    """

    claim: str
    from_ns: int
    to_ns: int
    levels: tuple[BandwidthUse, ...]

    @property
    def own(self) -> BandwidthUse:
        """Its own cgroup's."""
        return self.levels[0]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledBelow:
    """A cgroup below a claim's own, of no other claim, that was throttled by its own quota: deltas of ``cpu.stat``.

    Of one that was made in the window all that it counts; of one that was removed before its end nothing is known.
    """

    claim: str
    cgroup: str
    nr_periods: int
    nr_throttled: int
    throttled_ns: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPressure:
    """How long tasks of a claim's cgroup waited for a CPU by the kernel's pressure stall information (PSI).

    Deltas of ``cpu.pressure`` over ``window_ns``, what goes on at either end included. On each CPU ``some`` is the time
    in which a task of the cgroup was runnable there and did not run, throttled or not; of several CPUs the kernel keeps
    the mean, weighted by how long each was not idle for the cgroup. ``full``: none of its tasks ran there meanwhile.

    :param skew_ns: how far before the ledger's own moments it was read, both ends together.
    :param unread: why it was not read; then all else is 0.
    :param full_us: ``None``: before Linux 5.13.
    """

    claim: str
    window_ns: int = 0
    some_us: int = 0
    full_us: int | None = None
    skew_ns: int = 0
    unread: str = ""


@stage_value
@dataclass(frozen=True, kw_only=True)
class PressureEvidence:
    """The kernel's own witness of waits, of all claims."""

    pressure: tuple[CpuPressure, ...] = ()


@stage_value
@dataclass(frozen=True, kw_only=True)
class FileEvidence:
    """The control files of the cgroups of all claims, and of all cgroups above them."""

    files_before: tuple[CgroupFiles, ...] = ()
    files_after: tuple[CgroupFiles, ...] = ()
    """Of a cgroup that ended while we watched: the last reading before its end."""
    files_during: tuple[CgroupFiles, ...] = ()
    """Readings in between (``at_ns`` since the window opened) that differ from the one before them, of the same cgroup;
    what it said before may have changed at any time since the reading before."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class FileCoverage:
    """How closely they were followed."""

    file_readings: int = 0
    """How often all control files were read while the window was open, its two ends not counted. Of a node with
    hundreds of containers those of sets, while a program reports every write: nothing else changes any other."""
    file_gap_ns: int = 0
    """The longest time between two such readings, the ends of the window counted as readings: what was
    changed and put back meanwhile was not seen, unless it was written while every write was reported. 0 in runs from
    before it was measured."""
    file_unwatched_ns: int = 0
    """The longest time in which control files were neither read nor known to be unwritten: where every write is
    reported, a cgroup that is written to is read at once. 0 in runs from before writes were reported: ``file_gap_ns``.
    """


@stage_value
@dataclass(frozen=True, kw_only=True)
class BandwidthEvidence:
    """CPU time and throttling of all claims."""

    bandwidth: tuple[BandwidthUse, ...] = ()
    """Of a claim whose container began anew in another cgroup that of its last life."""
    ended_use: tuple[EndedUse, ...] = ()
    """Of its lives before, in their order."""
    throttled_below: tuple[ThrottledBelow, ...] = ()
    """Of claims that were promised to have no quota."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class BandwidthCoverage:
    """How far it may be off."""

    witness_skew_ns: int = 0
    """How long it took, at both ends together, from the first cgroup's CPU time to the ledger's own moment: what runs
    meanwhile is in one account only."""
