"""From when on CPUs that went offline may explain what is outside a claim's set: nothing before it is excused.

Source: docs/facts.md K14 (a cpuset whose CPUs are all offline is lent its parent's; fewer leave the others granted).
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, ThreadMask
from toolkit.model.kernel_defects import MASKS_RESET, has_defect
from toolkit.model.verdict import Offender

LATE_NS = 500_000_000
"""How much later than the CPU's going an event may be dated. Cpusets are rewritten while the CPU goes down, the kernel
sends its event when it is down, and the event is dated when it is received; one that comes later than this half second
after the online list changed is reported as lost (``toolkit/host/hotplug.py``), and a change without an event is dated
at the second look, which is two tenths of a second later at most."""


def all_offline_ns(cpus: CpuSet, evidence: Evidence) -> int | None:
    """Return since when all of these CPUs may have been offline together; ``None``: at no time of the window."""
    gone = CpuSet.of(cpu for cpu in cpus if _came_first(cpu, evidence))
    for event in sorted(evidence.hotplug, key=lambda event: event.at_ns):
        one = CpuSet.of([event.cpu])
        gone = gone - one if event.online else gone | one
        if cpus <= gone:
            return event.at_ns - LATE_NS
    return None


def is_lent(cpus: CpuSet, outside: Iterable[ThreadMask | Offender], evidence: Evidence) -> bool:
    """Return whether these masks and stays may all be the kernel's: it lends CPUs to threads that have none left."""
    lent_ns = all_offline_ns(cpus, evidence)
    return lent_ns is not None and all(one.first_at_ns >= lent_ns for one in outside)


def first_offline_ns(cpus: CpuSet, evidence: Evidence) -> int | None:
    """Return since when one of these CPUs may have been offline; ``None``: none went."""
    times = [event.at_ns for event in evidence.hotplug if event.cpu in cpus and not event.online]
    return min(times) - LATE_NS if times else None


def first_change_ns(cpus: CpuSet, evidence: Evidence) -> int | None:
    """Return since when one of these CPUs may have gone or come; ``None``: none did."""
    times = [event.at_ns for event in evidence.hotplug if event.cpu in cpus]
    return min(times) - LATE_NS if times else None


def _came_first(cpu: int, evidence: Evidence) -> bool:
    """Return whether a CPU was offline when the window opened: the first that is known of it is that it came."""
    events = sorted((event for event in evidence.hotplug if event.cpu == cpu), key=lambda event: event.at_ns)
    return bool(events) and events[0].online


def masks_reset(evidence: Evidence) -> bool:
    """Return whether CPUs that went or came took away the masks that tasks had set: before Linux 6.2 each one does.

    Source: docs/facts.md K11; ``cpuset_hotplug_workfn`` in kernel/cgroup/cpuset.c of 6.1.
    """
    return bool(evidence.hotplug) and has_defect(evidence.environment.kernel, MASKS_RESET)
