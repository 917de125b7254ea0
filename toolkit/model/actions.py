"""Actions on tasks: moves between cgroups and affinity changes, with their authors, to explain where a task ran.

Source: kernel/cgroup/cgroup.c (``cgroup_attach_task``), sched_setaffinity(2).
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMove:
    """A task of a claim was moved: into it, out of it, inside it, or in a v1 hierarchy beside it.

    :param from_claim: claim that it was under, ``""`` for none or not known.
    :param to_claim: claim that it is under now; in a v1 hierarchy that is the same, identity is that of v2.
    :param hierarchy: ``v2``, or the controllers of the v1 hierarchy (``cpuset``).
    :param cgroup: where to, cut to 127 bytes; ``""``: it was born there (``born``).
    :param pid: the task's process. :param writer_pid: the writer's; 0 in runs from before they were kept.
    :param leaves: it left the claim, alive: its v2 cgroup, or in a v1 hierarchy the claim's cgroup there. Of a task of
        an unclaimed pod (``from_pods``): it left all pods.
    :param visit: it had come from outside, and leaves with the program that it came with.
    :param born: the writer, a task of the claim, has borne it outside (``CLONE_INTO_CGROUP``).
    :param writer_claim: whose the writer is, of a task that leaves.
    :param writer_in_pods: the writer is an unclaimed pod's.
    """

    at_ns: int
    tid: int
    comm: str
    whole_process: bool
    from_claim: str
    to_claim: str
    hierarchy: str
    cgroup: str
    writer_tid: int
    writer_comm: str
    pid: int = 0
    writer_pid: int = 0
    leaves: bool = False
    from_pods: bool = False
    visit: bool = False
    born: bool = False
    writer_claim: str = ""
    writer_in_pods: bool = False


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityChange:
    """A call of sched_setaffinity, also one that was refused.

    :param claim: claim of the thread whose mask it is, ``""`` for none or not known.
    :param cpus: what was asked for; the kernel grants what of it lies in the cpuset.
    :param errno: 0, or why the kernel refused.
    :param caller_pid: the caller's process; 0 in runs from before it was kept.
    """

    at_ns: int
    tid: int
    claim: str
    cpus: CpuSet
    errno: int
    caller_tid: int
    caller_comm: str
    caller_claim: str
    caller_pid: int = 0
