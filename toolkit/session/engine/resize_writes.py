"""The files of a resize, in the order in which a kubelet writes them, and how the machine follows one that is observed.

The pod's come first where it grows and last where it shrinks: a container never has more than its pod in between, and
cgroup v1 refuses a quota above the parent's. Containers that lose CPUs are written first, so that no CPU has two owners
at any time. A kubelet that updates pod by pod does not take care of that (``docs/failures.md`` F65); ``resize-ignored``
is what it then looks like.
Source: Kubernetes v1.36.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go (doPodResizeAction);
Documentation/scheduler/sched-bwc.rst ("Hierarchical considerations").
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from toolkit.apply import cgroups
from toolkit.apply.live_sandbox import LiveSandbox
from toolkit.model.claims import NO_QUOTA, ClaimSet, pod_claim_name
from toolkit.model.plan import Plan, PodPlan
from toolkit.model.sandbox import CgroupRequest
from toolkit.session.engine.observe import Observation
from toolkit.session.planning.from_plan import claim_name
from toolkit.session.planning.resizing import admitted, resized_claims
from toolkit.session.planning.tree import pod_path, qos_requests

UNLIMITED = float("inf")


def write_bandwidth(live: LiveSandbox, before: Plan, after: Plan, ignored: str = "") -> None:
    """Write the CFS quotas that change. :param ignored: a claim, or a pod's, whose own file is left as it is."""
    present = {one.claim for one in live.value.containers}
    for old, new in admitted(before, after):
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
    for old, new in admitted(before, after):
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


def carry_out(
    live: LiveSandbox, opened: Observation, claims: ClaimSet, before: Plan, after: Plan, ignored: str = ""
) -> None:
    """Let the machine follow: shares and memory limits, then cpusets, what loses CPUs first; then write down what is
    promised. Quotas have been written before the window was opened.

    :param claims: what is promised now. :param ignored: a claim whose change of CPUs is announced, but not written.
    """
    write_limits(live, before, after)
    then = {claim.name: claim for claim in resized_claims(claims, after).claims}
    promised = {name: claim.cpus for name, claim in then.items()}
    moves = [(claim, cpus) for claim in claims.claims if (cpus := promised[claim.name]) and cpus != claim.cpus]
    for claim, cpus in sorted(moves, key=lambda move: len(move[1]) - len(move[0].cpus or ())):
        with opened.observer.changing(claim.name, cpus):
            if claim.name != ignored:
                live.set_cpus(claim.name, cpus)
        opened.promise(then.pop(claim.name))
    for claim in claims.claims:
        if claim.name in then and then[claim.name] != claim:
            opened.promise(then[claim.name])


def _rate(pod: PodPlan) -> float:
    return UNLIMITED if pod.quota_us == NO_QUOTA else pod.quota_us / pod.period_us


def _memory(pod: PodPlan) -> float:
    return UNLIMITED if pod.memory_limit_bytes is None else pod.memory_limit_bytes
