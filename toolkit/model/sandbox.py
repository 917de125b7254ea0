"""What is to be put on the machine (requests), and what was put there (sandbox).

The tree below ``/pinproof-<run>`` has the kubelet's shape: pod cgroups that carry quota and weight only, container
cgroups below them that carry the cpuset (Source: ``docs/facts.md``, "pod and QoS cgroups never
carry a cpuset, only containers do").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.claims import HugepageLimit
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


class WorkloadKind(StrEnum):
    """What the tasks of a container do."""

    QUIET = "quiet"
    """Sleeps."""
    SPIN = "spin"
    """``threads`` tasks busy in user mode."""
    SWITCH = "switch"
    """Pairs of tasks that hand a token back and forth: many context switches."""
    FORK_STORM = "fork-storm"
    THREAD_STORM = "thread-storm"
    EXEC_STORM = "exec-storm"
    """Short-lived fork + exec children."""
    AFFINITY_ESCAPER = "affinity-escaper"
    """Asks ``sched_setaffinity`` for every CPU in turn; the kernel must clip it."""
    SYSCALL = "syscall"
    """Busy in kernel mode."""
    MEMORY = "memory"
    """Touches ``memory_bytes`` of anonymous memory again and again."""
    HUGE_PAGES = "huge-pages"
    """Touches ``memory_bytes`` of huge pages (``page_bytes`` each) again and again."""
    PULSE = "pulse"
    """Sleeps ``period_ms``, runs 0.01 ms in user mode, for ever: many short known intervals (the canaries do this)."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A load that a container runs."""

    kind: WorkloadKind = WorkloadKind.QUIET
    threads: int = 1
    memory_bytes: int = 16 * 1024 * 1024
    page_bytes: int = 2 << 20
    period_ms: int = 40


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupRequest:
    """One cgroup to make. ``path`` is relative to the sandbox root, e.g. ``poda`` or ``poda/db``; parents come first.

    ``None`` leaves a file alone. ``quota_us`` -1 writes "no quota". ``shares`` is given in v1 units; ``weight`` in v2
    units; the driver writes the one that the hierarchy has.
    """

    path: str
    cpus: CpuSet | None = None
    mems: CpuSet | None = None
    quota_us: int | None = None
    period_us: int = 100_000
    burst_us: int | None = None
    shares: int | None = None
    weight: int | None = None
    memory_max_bytes: int | None = None
    hugepages: tuple[HugepageLimit, ...] = ()
    """Written where the v2 hierarchy has the hugetlb controller."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """One container: its cgroup and what runs in it. ``claim`` names it in everything downstream."""

    claim: str
    cgroup: CgroupRequest
    workloads: tuple[Workload, ...] = ()


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """A whole sandbox. ``parents`` are the pod (and QoS) cgroups in creation order.

    :param cpus: everything in it may use these CPUs only; ``None``: all.
    """

    parents: tuple[CgroupRequest, ...] = ()
    containers: tuple[ContainerRequest, ...] = ()
    cpus: CpuSet | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxContainer:
    """A container that runs. ``cgroup`` is relative to the cgroup root (``/pinproof-…/poda/db``)."""

    claim: str
    cgroup: str
    pids: tuple[int, ...]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What stands on the machine."""

    run_id: str
    root: str
    runtime: str
    containers: tuple[SandboxContainer, ...] = ()
