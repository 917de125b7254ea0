"""Where a claim's memory and devices really are: resident pages by kind and node, huge pages, PCI devices. Facts only.

Source: proc(5) and Documentation/filesystems/proc.rst (``numa_maps``); Documentation/admin-guide/cgroup-v2.rst and
cgroup-v1/hugetlb.rst (hugetlb); Documentation/ABI/testing/sysfs-bus-pci (``numa_node``); docs/failures.md F66.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


class PageKind(StrEnum):
    """What a mapping's pages are; ``file`` pages belong to the page cache, not to the process."""

    ANON = "anon"
    HEAP = "heap"
    STACK = "stack"
    HUGE = "huge"
    """hugetlb pages; transparent huge pages count as the kind of their mapping."""
    FILE = "file"
    """Everything with a file behind it, shared memory included; the first toucher placed each page."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class PageUse:
    """Resident pages of one kind on one node, over all processes of a claim at one moment.

    :param pid, comm, process_bytes: the process that has most of them there, and how much.
    """

    claim: str
    kind: PageKind
    node: int
    total_bytes: int
    pid: int
    comm: str
    process_bytes: int


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class PageReading:
    """One reading of a claim's ``numa_maps`` files.

    :param processes: how many were read. :param unread: how many were there but could not be read, or were left out.
    :param joining: how many had a runtime's name, had begun a moment ago and had pages on other nodes: what such a one
        allocated before it joined goes when it becomes the container's program. Its pages are not counted.
    """

    claim: str
    processes: int
    unread: int
    joining: int = 0
    pages: tuple[PageUse, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class HugetlbUse:
    """The hugetlb controller's files of a claim's cgroup for one page size; ``None`` where the file does not exist.

    :param limit_bytes: -1 where the file says that there is no limit.
    :param failures: allocations that the limit has refused since the cgroup was made.
    :param node_bytes: usage by NUMA node (``numa_stat``).
    """

    claim: str
    page_bytes: int
    limit_bytes: int | None = None
    usage_bytes: int | None = None
    failures: int | None = None
    node_bytes: dict[int, int] | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlace:
    """A PCI device by its address (``0000:00:1f.2``).

    :param present: whether the kernel has such a device. :param numa_node: -1: the firmware does not say.
    """

    bdf: str
    present: bool
    numa_node: int | None = None
    local_cpus: CpuSet = field(default_factory=CpuSet)
