"""What an observer is built for: sizes, rates and places. Everything has a default that suits a node."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.serde import stage_value

MAX_LEVELS = 24
"""Levels of the cgroup tree in which a claim can sit, the root's included; what is below a claim may be deeper."""
BIN_MS = 10
"""The length of a timeline's bins."""
MAX_LEVEL = MAX_LEVELS - 1
"""The deepest level below the cgroup root in which the ledger finds a claim."""
MAX_CLAIMS = (1 << 16) - 2
"""The most that the programs can be compiled for: they number claims, and one set more, in 16 bits."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveOptions:
    """Options of :class:`probes.observer.Observer`.

    :param max_claims: claims at one time; costs 304 bytes per claim and possible CPU, and 2 KB.
    :param max_tasks: threads (and processes) of claims whose membership is remembered.
    :param max_settled: processes that came into the v1 cpuset of a claim or a pod, and threads that did by themselves.
    :param max_irqs: sources of interrupts on watched CPUs in two windows; an entry for each source and CPU.
    :param max_actions: moves between cgroups, and affinity changes, that a CPU reports in a window; others are counted.
    :param max_writes: writes to control files that a CPU reports in a window; others are counted.
    :param max_waits: claims that waited, by CPU; ``max_culprits``: what had the CPU meanwhile, by claim and CPU.
    :param trace_syscalls: see affinity changes at the exit of system calls where the kernel refuses the cheap way;
        slows every system call of the machine.
    :param sampler_hz: rate of the CPU-clock sampler; 0 switches it off.
    :param sample_nohz_full: put the sampler's timer on nohz_full CPUs too.
    :param quiet_cpus: CPUs without a sampler and without a thread of this process. :param quiet_exclusive: so are those
        that claims have for themselves, as long as they have them.
    :param pending_ms: the patience: how long an interval outside waits for the kernel's word that its task was just
        moved in, and how much CPU time a thread may spend outside between a claim's identity and its v1 cpuset.
    :param joining_ms: how long a joining of a claim's identity waits for that of its v1 cpuset.
    :param scan_ms: pause between two scans of all threads' masks.
    :param bin_ms: length of the slots of ``usage_bins``, where a bandwidth or a part of contended CPU time is promised;
        elsewhere they have five seconds, for no rule asks.
    :param timeline: keep what each claim ran, and waited for, on each CPU in bins of :data:`BIN_MS`; of the first
        ``binned_claims`` alone, 6 KB for each of them and possible CPU.
    :param threads: scan thread masks at all.
    """

    max_claims: int = 512
    max_tasks: int = 65536
    max_settled: int = 16384
    max_offenders: int = 16384
    max_intruders: int = 16384
    max_irqs: int = 8192
    max_actions: int = 256
    max_writes: int = 1024
    trace_syscalls: bool = False
    ring_pages: int = 64
    details_per_row: int = 32
    sampler_hz: int = 99
    sample_nohz_full: bool = False
    quiet_cpus: CpuSet = EMPTY
    quiet_exclusive: bool = False
    pending_ms: int = 75
    joining_ms: int = 5000
    scan_ms: int = 200
    bin_ms: int = 100
    max_waits: int = 8192
    max_culprits: int = 16384
    timeline: bool = False
    binned_claims: int = 32
    threads: bool = True

    @property
    def slot_ms(self) -> int:
        """Length of the slots that the rows of the ledger are kept in: of ``usage_bins``, or a part of them."""
        return BIN_MS if self.timeline else self.bin_ms

    @property
    def sampler_gap_ns(self) -> int:
        """Time without a tick that is too long: the sampler is half a period late."""
        return 1_500_000_000 // self.sampler_hz if self.sampler_hz else 1 << 62
