"""Containers on an owner's CPUs that nothing watched yet: its next life, which has them after it, or a stranger's.

A container that restarts has a new cgroup, and the node is read a while after: on a slow machine the new life runs on
the CPUs of the old one for many seconds as a task without a claim. Its runtime has pinned it long before, so that no
bound of a start applies. So does a container that gets the CPUs of one that has ended. What the readings say decides:
of the window, of the one after it, and what is in no reading yet is not known. Only a new container of the same pod may
be that, and while the old life runs none is.

Source: docs/facts.md, "Normal on a healthy node"; pkg/kubelet/kuberuntime/kuberuntime_manager.go (``SyncPod``: a
container is started anew where it has ended).
"""

from __future__ import annotations

from collections.abc import Callable

from toolkit.model.claim_changes import versions
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.runtimes import PINNED_NS, whole_of
from toolkit.timeline.saved import ADDED, REMOVED
from validators.queries import timeline, view
from validators.wording import milliseconds

GONE, MADE = "cgroup-gone", "cgroup-made"
IsOwner = Callable[[Claim, int], bool]


def is_his(
    known: Claim, intruder: Intruder, owner: Claim | None, is_owner: IsOwner, claims: ClaimSet, evidence: Evidence
) -> bool:
    """Return whether a task that nothing watched yet owns the CPU: by the readings its container is ``known``.

    It is the owner's other life; or it shares what is its pod's; or the owner is over, and the CPU was given to it: an
    init container's goes on to the others of its pod, that of a pod to the one that is made again under its name, or to
    any other.
    """
    if owner is None or known.cpus is None or intruder.cpu not in known.cpus or known.isolation is Isolation.HOST:
        return False
    at_ns = intruder.first_at_ns
    before = [one.claim for one in versions(claims, owner) if one.at_ns <= at_ns]
    now = before[-1] if before else owner
    if _is_over(now, at_ns, evidence):
        return True
    if known.name != owner.name:
        return is_owner(known, intruder.cpu) and Isolation.POD is now.isolation is known.isolation
    return known.pod_uid == owner.pod_uid == now.pod_uid


def doubt(intruder: Intruder, owner: Claim | None, evidence: Evidence) -> str:
    """Return why it is not known whether a task owns the CPU whose container no reading knows; empty: it does not."""
    container = container_of_pod(intruder.cgroup, owner)
    if owner is None or not container:
        return ""
    mine = [one for one in evidence.intruders if one.owner is OwnerClass.FOREIGN_POD]
    since_ns = min(one.first_at_ns for one in mine if view.at_or_below(one.cgroup, container))
    if not _is_new(container, since_ns, owner, evidence):
        return ""
    return (
        f"{intruder.comm} ran {milliseconds(intruder.total_ns)} on CPU {intruder.cpu} in {intruder.cgroup}, a new "
        f"container of the pod of `{owner.name}` which no reading of the node shows yet: it is not known "
        "whether it is the owner's next life"
    )


def container_of_pod(cgroup: str, owner: Claim | None) -> str:
    """Return the container's cgroup in which a task of the owner's pod is; empty: it is of none."""
    if owner is None or not owner.pod_uid or not owner.kind.carries_tasks:
        return ""
    pod = whole_of(owner.cgroup).rpartition("/")[0]
    if not pod or not cgroup.startswith(f"{pod}/"):
        return ""
    return f"{pod}/{cgroup.removeprefix(f'{pod}/').split('/')[0]}"


def _is_new(container: str, since_ns: int, owner: Claim, evidence: Evidence) -> bool:
    """Return whether no reading could know a container in which a task ran first at this moment.

    :param owner: where its CPUs are its own alone it must be over by then. What is not in the list while its runtime
        makes it may be its next life then; of a pod's CPUs only a container that came after the readings is not known.
    """
    following = evidence.following
    if following is None:
        return False
    read_ns = following.known_until_ns
    if read_ns is None:
        read_ns = following.last_reading_ns
    if read_ns is None:
        read_ns = evidence.duration_ns - following.gap_ns
    if not _is_over(owner, since_ns, evidence):
        return owner.isolation is Isolation.POD and since_ns >= read_ns
    return since_ns >= read_ns - PINNED_NS or any(one.cgroup == container for one in timeline.being_made(evidence))


def _is_over(owner: Claim, at_ns: int, evidence: Evidence) -> bool:
    """Return whether the life of the owner that was watched had ended at this moment: its cgroup, of whose end the
    kernel gives the time. Where nothing happened to it in the window before, it ended before the window if its cgroup
    was not found then, and it shows no sign of life.
    """
    events = [
        (one.start_at_ns, one.what)
        for one in view.changes_of(owner.name, evidence.transitions)
        if one.what in (GONE, MADE, ADDED, REMOVED) and one.start_at_ns <= at_ns
    ]
    if events:
        return max(events)[1] in (GONE, REMOVED)
    own_rows = view.by_claim(evidence.cpu_use).get(owner.name, ())
    ran = any(row.switches or row.run_ns or row.samples for row in own_rows)
    seen = owner.name in view.by_claim(evidence.thread_masks)
    files = [row.empty for row in evidence.files_before if row.cgroup == owner.cgroup]
    return bool(files) and all(files) and not ran and not seen
