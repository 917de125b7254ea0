"""The faults that can be injected: what each does, what it stands for, and which rules must report it. Data only.

Source: ``docs/failures.md``; ``docs/facts.md`` K11-K20.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.errors import InputError
from toolkit.model.serde import stage_value


class Scope(StrEnum):
    """What a fault changes."""

    CGROUP = "cgroup"
    """A cgroup and its tasks: free in sandboxes of our own, with consent elsewhere."""
    HOST = "host"
    """The whole machine: only with consent."""
    FILE = "file"
    """A state file of a kubelet that is named: only with consent."""


class FaultId(StrEnum):
    """Names of the faults."""

    CPUSET_WRITE = "cpuset-write"
    CPUSET_EMPTIED = "cpuset-emptied"
    POOL_EMPTIED = "pool-emptied"
    QUOTA_RESET = "quota-reset"
    QUOTA_IMPOSED = "quota-imposed"
    WEIGHT_RESET = "weight-reset"
    TASK_MOVED = "task-moved"
    ROGUE_TASK = "rogue-task"
    CHECKPOINT_TORN = "checkpoint-torn"
    CPU_OFFLINE = "cpu-offline"
    IRQ_MOVED = "irq-moved"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    :param changes: what is changed, in the kernel's words. :param field: failures of docs/failures.md that it makes.
    :param rules: rules that must say ``failed`` because of it (``undecided`` for ``undecides``).
    """

    id: FaultId
    scope: Scope
    title: str
    changes: str
    field: tuple[str, ...]
    rules: tuple[str, ...]
    undecides: tuple[str, ...] = ()


FAULTS: tuple[Fault, ...] = (
    Fault(
        id=FaultId.CPUSET_WRITE,
        scope=Scope.CGROUP,
        title="somebody else writes the cpuset",
        changes="cpuset.cpus of the target becomes --cpus (default: all that its parent has)",
        field=("F4", "F7", "F15", "F16"),
        rules=("applied", "affinity-mask"),
    ),
    Fault(
        id=FaultId.CPUSET_EMPTIED,
        scope=Scope.CGROUP,
        title="the cpuset is emptied as systemctl daemon-reload does it",
        changes="cpuset.cpus and cpuset.mems of the target become empty, so that it has its parent's; where there "
        "are tasks, and on cgroup v1, the kernel refuses an empty set: there the parent's values are written",
        field=("F13", "F19"),
        rules=("applied", "affinity-mask"),
    ),
    Fault(
        id=FaultId.POOL_EMPTIED,
        scope=Scope.CGROUP,
        title="the shared pool becomes empty",
        changes="cpuset.cpus of all targets (the containers of the pool) becomes empty, so that they have their "
        "parent's CPUs, exclusive ones too; where there are tasks, and on cgroup v1, the parent's CPUs are written",
        field=("F2", "F3", "F33"),
        rules=("applied", "affinity-mask"),
    ),
    Fault(
        id=FaultId.QUOTA_RESET,
        scope=Scope.CGROUP,
        title="the CFS quota is reset",
        changes="cpu.max (cpu.cfs_quota_us) of the target becomes max (-1)",
        field=("F10", "F14"),
        rules=("applied",),
    ),
    Fault(
        id=FaultId.QUOTA_IMPOSED,
        scope=Scope.CGROUP,
        title="an exclusive container gets a quota",
        changes="cpu.max (cpu.cfs_quota_us) of the target becomes --quota of each 100000 us (default 1000: 1 %)",
        field=("F56", "F57", "F62"),
        rules=("applied", "quota-free"),
    ),
    Fault(
        id=FaultId.WEIGHT_RESET,
        scope=Scope.CGROUP,
        title="the CPU weight is reset",
        changes="cpu.weight (cpu.shares) of the target becomes the kernel's default, 100 (1024)",
        field=("F14", "F63"),
        rules=("applied",),
    ),
    Fault(
        id=FaultId.TASK_MOVED,
        scope=Scope.CGROUP,
        title="a task is moved out of its cgroup",
        changes="the first process of the target moves to a new cgroup beside the pod, in every hierarchy",
        field=("F46", "F47"),
        rules=("exclusive-cpus",),
    ),
    Fault(
        id=FaultId.ROGUE_TASK,
        scope=Scope.CGROUP,
        title="a rogue task is pinned to an exclusive CPU",
        changes="a new cgroup beside the target's pod, in it a busy task pinned to --cpus (default: the target's "
        "first)",
        field=("F2", "F7", "F8"),
        rules=("exclusive-cpus",),
    ),
    Fault(
        id=FaultId.CHECKPOINT_TORN,
        scope=Scope.FILE,
        title="the kubelet dies between its two saves",
        changes="--state-file loses (leaked) or keeps twice (doubly-owned) the CPUs of one container, checksum valid",
        field=("F6", "F21", "F22", "F41", "F42"),
        rules=("checkpoint",),
    ),
    Fault(
        id=FaultId.CPU_OFFLINE,
        scope=Scope.HOST,
        title="a CPU goes offline",
        changes="/sys/devices/system/cpu/cpuN/online becomes 0; cpusets, affinities and interrupts that the kernel "
        "changes with it are put back at the end",
        field=("F32", "F33"),
        rules=(),
        undecides=("evidence-health",),
    ),
    Fault(
        id=FaultId.IRQ_MOVED,
        scope=Scope.HOST,
        title="an interrupt is moved onto an exclusive CPU",
        changes="/proc/irq/N/smp_affinity_list of --irq (default: the busiest that can be moved) becomes --cpus",
        field=("F52",),
        rules=("noise",),
    ),
)


def fault_named(name: str) -> Fault:
    """Return one fault.

    :raises InputError: there is no such fault; the message lists them.
    """
    for fault in FAULTS:
        if fault.id == name:
            return fault
    raise InputError(f"fault {name[:60]!r}", "no such fault", f"one of {', '.join(fault.id for fault in FAULTS)}")
