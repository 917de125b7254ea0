"""Containers that ask for CPUs of their own, run on a set of their own, and have none by the state file.

The pool's CPUs are promised to such a one from then on, and it lacks them: that looks like a pool that grows late.
A kubelet which is asked for the pod again at its start gives CPUs to it again, so no healthy one leaves it so. A pod
that has ended for the kubelet loses them while it still runs: whether that is so is known of what it has allocated, and
of a pod whose manifest was taken away. Source: docs/facts.md K-kubelet-4, K-kubelet-11; docs/failures.md F31.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.kubernetes.feature_gates import POD_LEVEL_RESOURCES
from toolkit.model.claims import SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import Held, Why
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.allocated import allocations
from toolkit.sources.kubelet.claims import NodeClaims, Promise
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.owners import own_cpus
from toolkit.sources.kubelet.parents import class_of
from toolkit.sources.kubelet.requests import requested
from toolkit.sources.kubelet.static_pods import manifests
from toolkit.sources.kubelet.still import asked_of


def forgotten(reading: NodeReading, found: NodeClaims, running: Sequence[Promise]) -> tuple[Held, ...]:
    """Return those of the promises in force that are so."""
    apart = [(promise, cpus) for promise in running if (cpus := _own_set(promise))]
    if not apart or found.settings.problem or found.settings.config.cpu_manager_policy != "static":
        return ()
    gates = found.settings.config.feature_gates
    asked_for = requested(reading, budgets=gates[POD_LEVEL_RESOURCES])
    allocated, here = allocations(reading), manifests(reading)
    rows = []
    for promise, cpus in apart:
        subject, uid = promise.subject, promise.subject.pod_uid
        pod = asked_for.pods.get(uid) if uid in allocated or uid in here else None
        container = pod.container(subject.container) if pod is not None and uid not in asked_for.in_force else None
        if pod is None or container is None or class_of("/".join(subject.cgroup.split("/")[:-2])):
            continue
        count = own_cpus(pod, container, gates)
        if count and promise.claim is not None:
            name, certain = promise.claim.name, uid in allocated
            rows.append(Held(claim=name, cpus=cpus, why=Why.FORGOTTEN, asks=count, certain=certain))
    return tuple(rows)


def _own_set(promise: Promise) -> CpuSet:
    """Return what a container of the pool has that is not the pool; nothing: it has that, or it is not known."""
    if promise.in_state or promise.subject.kind is not SubjectKind.CONTAINER or not promise.state:
        return CpuSet()
    has = asked_of(promise)
    has = parsed(promise.subject.files.get("cpuset.cpus", "")) if has is None else has
    return CpuSet() if not has or has == promise.state else has
