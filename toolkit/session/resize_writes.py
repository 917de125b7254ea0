"""The files of a resize, in the order in which a kubelet writes them.

The pod's come first where it grows and last where it shrinks: a container never has more than its pod in between, and
cgroup v1 refuses a quota above the parent's.
Source: Kubernetes v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go (doPodResizeAction);
Documentation/scheduler/sched-bwc.rst ("Hierarchical considerations").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from toolkit.apply import cgroups
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.model.claims import NO_QUOTA, pod_claim_name
from toolkit.model.plan import Plan, PodPlan
from toolkit.model.sandbox import CgroupRequest
from toolkit.session.from_plan import claim_name
from toolkit.session.tree import pod_path, qos_requests

UNLIMITED = float("inf")


def changes_bandwidth(before: Plan, after: Plan) -> bool:
    """Return whether a CFS quota is another one afterwards, of a pod or of a container."""
    return any(
        old.quota_us != new.quota_us
        or any(was.quota_us != now.quota_us for was, now in zip(old.containers, new.containers, strict=True))
        for old, new in _pods(before, after)
    )


def with_bandwidth(before: Plan, after: Plan) -> Plan:
    """Return the plan of before with the quotas of after: all else follows while a window is open."""
    pods = []
    for old, new in zip(before.pods, after.pods, strict=True):
        parts = tuple(
            replace(was, quota_us=now.quota_us, period_us=now.period_us)
            for was, now in zip(old.containers, new.containers, strict=True)
        )
        pods.append(replace(old, quota_us=new.quota_us, period_us=new.period_us, containers=parts))
    return replace(before, pods=tuple(pods))


def write_bandwidth(live: LiveSandbox, before: Plan, after: Plan, ignored: str = "") -> None:
    """Write the CFS quotas that change. :param ignored: a claim, or a pod's, whose own file is left as it is."""
    present = {one.claim for one in live.value.containers}
    for old, new in _pods(before, after):
        writes: list[Callable[[], object]] = []
        for was, now in zip(old.containers, new.containers, strict=True):
            name = claim_name(new, now)
            if name in present and name != ignored and was.quota_us != now.quota_us:
                writes.append(partial(live.set_bandwidth, name, now.quota_us, now.period_us))
        if old.quota_us != new.quota_us and pod_claim_name(new.name) != ignored:
            parent = CgroupRequest(path=pod_path(new), quota_us=new.quota_us, period_us=new.period_us)
            writes.insert(0 if _rate(new) > _rate(old) else len(writes), partial(live.set_parent, parent))
        for write in writes:
            write()


def write_limits(live: LiveSandbox, before: Plan, after: Plan) -> None:
    """Write weights and memory limits: QoS classes, then each pod and its containers."""
    places = {one.claim: one.cgroup for one in live.value.containers}
    for parent in qos_requests(after):
        live.set_parent(parent)
    for old, new in _pods(before, after):
        parent = CgroupRequest(path=pod_path(new), shares=new.shares, memory_max_bytes=new.memory_limit_bytes)
        grows = _memory(new) >= _memory(old)
        if grows:
            live.set_parent(parent)
        for container in new.containers:
            place = places.get(claim_name(new, container))
            if place is None:
                continue
            cgroups.set_weight(live.hierarchy, place, shares=container.shares, weight=None)
            if container.memory_limit_bytes is not None:
                cgroups.set_memory_max(live.hierarchy, place, container.memory_limit_bytes)
        if not grows:
            live.set_parent(parent)


def _pods(before: Plan, after: Plan) -> Iterator[tuple[PodPlan, PodPlan]]:
    return ((old, new) for old, new in zip(before.pods, after.pods, strict=True) if new.admitted)


def _rate(pod: PodPlan) -> float:
    return UNLIMITED if pod.quota_us == NO_QUOTA else pod.quota_us / pod.period_us


def _memory(pod: PodPlan) -> float:
    return UNLIMITED if pod.memory_limit_bytes is None else pod.memory_limit_bytes
