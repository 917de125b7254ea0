"""Containers that were given CPUs of their own, and that the state file does not name any more.

What follows a node from before has seen that. What reads it for the first time has the runtime's word alone.
Source: docs/facts.md K-shares, K-kubelet-4, K-kubelet-12.
"""

from __future__ import annotations

from toolkit.allocation.cgroup_values import milli_to_shares
from toolkit.model.claims import SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.sources.kubelet.asked import asked_of
from toolkit.sources.kubelet.claims import NodeClaims, Promise
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.modelled import STATIC
from toolkit.sources.kubelet.parents import class_of


def had_own(promise: Promise, found: NodeClaims) -> CpuSet:
    """Return the CPUs that a container was given as its own, and that are no longer; empty: none, as far as is known.

    In a Guaranteed pod, with the shares of as many whole CPUs as it was given, and no CPU of the pool among these: what
    shares the pool has its CPUs, or those of the pool that was.
    """
    asked, subject = asked_of(promise.subject), promise.subject
    static = not found.settings.problem and found.settings.config.cpu_manager_policy == STATIC
    if promise.in_state or promise.state is None or subject.kind is not SubjectKind.CONTAINER or not static:
        return CpuSet()
    cpus = parsed(asked.cpus or "") or CpuSet()
    guaranteed = not class_of("/".join(subject.cgroup.split("/")[:-2]))
    whole = asked.shares == milli_to_shares(1000 * len(cpus)) and not cpus & promise.state
    return cpus if guaranteed and whole else CpuSet()
