"""Plan -> what to put on the machine (SandboxRequest) and what was thereby promised (ClaimSet). Pure.

The cgroup tree has the kubelet's shape: Guaranteed pods directly below the root, the others below ``burstable`` and
``besteffort``; quota and shares on pods, cpusets only on containers.
Source: ``../shared/field.md`` section 4.6 K-pod; ``../shared/kubelet-captures/README.md``, "Normal on a healthy node".
"""

from __future__ import annotations

from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, ContainerRole, Plan, PodPlan, QosClass
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, Sandbox, SandboxRequest, Workload, WorkloadKind
from toolkit.model.scenario import Scenario

QOS_PARENT = {QosClass.GUARANTEED: "", QosClass.BURSTABLE: "burstable/", QosClass.BEST_EFFORT: "besteffort/"}
BEST_EFFORT_SHARES = 2

DEMAND = {WorkloadKind.SPIN: 1.0}
"""User-mode CPUs' worth that one thread of a workload asks for; kinds that are not here make no exact demand."""


def claim_name(pod: PodPlan, container: ContainerPlan) -> str:
    """Return the name that a container has in everything downstream."""
    return f"{pod.name}/{container.name}"


def running(plan: Plan) -> tuple[tuple[PodPlan, ContainerPlan], ...]:
    """Return the containers that run together once every init container has ended."""
    return tuple(
        (pod, container)
        for pod in plan.pods
        if pod.admitted
        for container in pod.containers
        if container.role is not ContainerRole.INIT
    )


def sandbox_request(plan: Plan, scenario: Scenario) -> SandboxRequest:
    """Return the cgroups and processes that the plan asks for."""
    pods = [pod for pod in plan.pods if pod.admitted]
    parents = []
    if any(pod.qos_class is QosClass.BURSTABLE for pod in pods):
        shares = sum(pod.shares for pod in pods if pod.qos_class is QosClass.BURSTABLE)
        parents.append(CgroupRequest(path="burstable", shares=max(shares, BEST_EFFORT_SHARES)))
    if any(pod.qos_class is QosClass.BEST_EFFORT for pod in pods):
        parents.append(CgroupRequest(path="besteffort", shares=BEST_EFFORT_SHARES))
    parents += [
        CgroupRequest(
            path=QOS_PARENT[pod.qos_class] + pod.name,
            quota_us=pod.quota_us,
            period_us=pod.period_us,
            shares=pod.shares,
        )
        for pod in pods
    ]
    containers = []
    for pod, container in running(plan):
        name = claim_name(pod, container)
        containers.append(
            ContainerRequest(
                claim=name,
                cgroup=CgroupRequest(
                    path=f"{QOS_PARENT[pod.qos_class]}{pod.name}/{container.name}",
                    cpus=container.cpus or None,
                    mems=container.mems,
                    quota_us=container.quota_us,
                    period_us=container.period_us,
                    shares=container.shares,
                ),
                workloads=scenario.workloads.get(name, (Workload(),)),
            )
        )
    # Lightest first: a BestEffort container that starts beside busy neighbours waits seconds for its first CPU time.
    containers.sort(key=lambda container: container.cgroup.shares or 0)
    return SandboxRequest(parents=tuple(parents), containers=tuple(containers))


def claim_set(plan: Plan, scenario: Scenario, sandbox: Sandbox) -> ClaimSet:
    """Return what the plan promised about the containers that stand on the machine."""
    cgroups = {container.claim: container.cgroup for container in sandbox.containers}
    claims = []
    for pod, container in running(plan):
        name = claim_name(pod, container)
        loads = scenario.workloads.get(name, ())
        claims.append(
            Claim(
                name=name,
                pod=pod.name,
                container=container.name,
                cgroup=cgroups[name],
                # An empty set means that the runtime is given none: then nothing is promised about placement.
                cpus=container.cpus or None,
                isolation=container.isolation,
                mems=container.mems,
                quota_us=container.quota_us,
                period_us=container.period_us,
                memory_bytes=None,
                alignments=container.alignments,
                demand_cpus=_demand(loads, container.cpus),
            )
        )
    return ClaimSet(
        claims=tuple(claims),
        reserved_cpus=plan.reserved_cpus,
        strict_reservation=plan.strict_reservation,
        policy=scenario.policy,
        pods_root=sandbox.root,
    )


def _demand(loads: tuple[Workload, ...], cpus: CpuSet) -> float | None:
    """CPUs' worth of user-mode work that the loads offer; ``None`` if one of them offers an unknown amount."""
    if not loads:
        return 0.0
    if any(load.kind not in DEMAND for load in loads):
        return None
    offered = sum(DEMAND[load.kind] * load.threads for load in loads)
    return min(offered, float(len(cpus))) if cpus else offered


def exclusive_cpus(plan: Plan) -> CpuSet:
    """Return the CPUs that belong to one container or one pod."""
    mask = 0
    for _, container in running(plan):
        if container.isolation is not Isolation.HOST:
            mask |= container.cpus.mask
    return CpuSet(mask)
