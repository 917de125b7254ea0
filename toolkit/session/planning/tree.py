"""The cgroups above a plan's containers: QoS classes and pods, what is asked of them and thereby promised. Pure.

The tree has the kubelet's shape: Guaranteed pods directly below the root, the others below ``burstable`` and
``besteffort``; quota, weight and memory limit on pods, a weight alone on QoS classes, cpusets on neither.
Source: ``docs/facts.md`` K-pod, K-weight; ``docs/facts.md``, "Normal on a healthy node".
"""

from __future__ import annotations

from toolkit.allocation.cgroup_values import milli_to_shares
from toolkit.model.claims import NO_QUOTA, Claim, SubjectKind, pod_claim_name, qos_claim_name
from toolkit.model.cpu_units import MIN_SHARES
from toolkit.model.plan import QOS_CGROUPS, Plan, PodPlan, QosClass
from toolkit.model.sandbox import CgroupRequest

BEST_EFFORT_SHARES = MIN_SHARES


def pod_path(pod: PodPlan) -> str:
    """Return the pod's cgroup below the sandbox's root."""
    parent = QOS_CGROUPS.get(pod.qos_class)
    return pod.name if parent is None else f"{parent}/{pod.name}"


def qos_requests(plan: Plan) -> tuple[CgroupRequest, ...]:
    """Return the cgroups of the QoS classes that have admitted pods: weights, as the kubelet sums them up.

    It sums requests and converts the sum once: a pod without a CPU request adds nothing, though its own weight is 2.
    Source: pkg/kubelet/cm/qos_container_manager_linux.go, ``setCPUCgroupConfig``.
    """
    pods = [pod for pod in plan.pods if pod.admitted]
    burstable = [pod for pod in pods if pod.qos_class is QosClass.BURSTABLE]
    found = []
    if burstable:
        milli = sum(pod.cpu_request_milli or 0 for pod in burstable)
        found.append(CgroupRequest(path=QOS_CGROUPS[QosClass.BURSTABLE], shares=milli_to_shares(milli)))
    if any(pod.qos_class is QosClass.BEST_EFFORT for pod in pods):
        found.append(CgroupRequest(path=QOS_CGROUPS[QosClass.BEST_EFFORT], shares=BEST_EFFORT_SHARES))
    return tuple(found)


def parent_requests(plan: Plan) -> tuple[CgroupRequest, ...]:
    """Return the cgroups of QoS classes and admitted pods, parents first."""
    return qos_requests(plan) + tuple(
        CgroupRequest(
            path=pod_path(pod),
            quota_us=pod.quota_us,
            period_us=pod.period_us,
            shares=pod.shares,
            memory_max_bytes=pod.memory_limit_bytes,
        )
        for pod in plan.pods
        if pod.admitted
    )


def parent_claims(plan: Plan, root: str) -> tuple[Claim, ...]:
    """Return what is promised about these cgroups. :param root: the cgroup that they are below.

    Which part of contended CPU time a pod gets is not promised by itself: its containers' parts are.
    """
    qos = tuple(
        Claim(
            name=qos_claim_name(one.path),
            cgroup=f"{root}/{one.path}",
            kind=SubjectKind.QOS,
            quota_us=NO_QUOTA,
            shares=one.shares,
            contended=False,
        )
        for one in qos_requests(plan)
    )
    return qos + tuple(
        Claim(
            name=pod_claim_name(pod.name),
            cgroup=f"{root}/{pod_path(pod)}",
            pod=pod.name,
            container="(pod)",
            kind=SubjectKind.POD,
            quota_us=pod.quota_us,
            period_us=pod.period_us,
            shares=pod.shares,
            memory_bytes=pod.memory_limit_bytes,
            contended=False,
        )
        for pod in plan.pods
        if pod.admitted
    )
