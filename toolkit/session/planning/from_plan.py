"""Plan -> what to put on the machine (SandboxRequest) and what was thereby promised (ClaimSet). Pure.

The cgroups above the containers, and what is promised about these, are :mod:`toolkit.session.planning.tree`'s.
Source: ``docs/facts.md`` K-pod; ``docs/facts.md``, "Normal on a healthy node".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.host.pci_devices import full_address
from toolkit.model.claims import Claim, ClaimSet, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, ContainerRole, Plan, PodPlan
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, Sandbox, SandboxRequest, Workload, WorkloadKind
from toolkit.model.scenario import Scenario
from toolkit.session.planning.tree import BEST_EFFORT_SHARES, parent_claims, parent_requests, pod_path

DEMAND = {WorkloadKind.SPIN: 1.0}
"""User-mode CPUs' worth that one thread of a workload asks for; kinds that are not here make no exact demand."""


def claim_name(pod: PodPlan, container: ContainerPlan) -> str:
    """Return the name that a container has in everything downstream."""
    return f"{pod.name}/{container.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What runs together at one time: the plan in force and the names of the containers.

    :param name: for people; empty for the last stage, in which everything that stays is there.
    """

    name: str
    plan: Plan
    containers: frozenset[str]


def stages(plan: Plan, before: Plan | None = None) -> tuple[Stage, ...]:
    """Return the stages of a plan in order: regular init containers run one after the other before their pod's app
    containers, sidecars start in their place among them and stay.

    :param before: the plan until some pods depart.
    """
    found = [] if before is None else [replace(stage, name=f"first {stage.name}".strip()) for stage in stages(before)]
    pods = [pod for pod in plan.pods if pod.admitted]
    steps = {pod.name: _steps(pod) for pod in pods}
    # Pods that were there before the departures have their init containers behind them.
    old = set() if before is None else {pod.name for pod in before.pods}
    count = max((len(steps[pod.name]) for pod in pods if pod.name not in old), default=1)
    for number in range(count):
        names: set[str] = set()
        for pod in pods:
            own = steps[pod.name]
            names |= own[-1] if pod.name in old else own[min(number, len(own) - 1)]
        last = number == count - 1
        found.append(Stage(name="" if last else f"init {number + 1}", plan=plan, containers=frozenset(names)))
    return tuple(found)


def _steps(pod: PodPlan) -> list[set[str]]:
    """Return what of a pod runs at a time: one step for each regular init container, and the last for the rest."""
    steps: list[set[str]] = []
    sidecars: set[str] = set()
    for container in pod.containers:
        if container.role is ContainerRole.SIDECAR:
            sidecars.add(claim_name(pod, container))
        elif container.role is ContainerRole.INIT:
            steps.append({*sidecars, claim_name(pod, container)})
    return [*steps, {claim_name(pod, one) for one in pod.containers if one.role is not ContainerRole.INIT}]


def running(plan: Plan, names: frozenset[str] | None = None) -> tuple[tuple[PodPlan, ContainerPlan], ...]:
    """Return the containers with these names; ``None``: those that run together once every init container has ended."""
    return tuple(
        (pod, container)
        for pod in plan.pods
        if pod.admitted
        for container in pod.containers
        if (container.role is not ContainerRole.INIT if names is None else claim_name(pod, container) in names)
    )


def sandbox_request(plan: Plan, scenario: Scenario, names: frozenset[str] | None = None) -> SandboxRequest:
    """Return the cgroups and processes that the plan asks for. :param names: the containers, see :func:`running`."""
    containers = []
    for pod, container in running(plan, names):
        name = claim_name(pod, container)
        containers.append(
            ContainerRequest(
                claim=name,
                cgroup=CgroupRequest(
                    path=f"{pod_path(pod)}/{container.name}",
                    cpus=container.cpus or None,
                    mems=container.mems,
                    quota_us=container.quota_us,
                    period_us=container.period_us,
                    shares=container.shares,
                    memory_max_bytes=container.memory_limit_bytes,
                    hugepages=container.hugepages,
                ),
                workloads=scenario.workloads.get(name, (Workload(),)),
            )
        )
    containers += [
        ContainerRequest(
            claim=f"{pod.name}/{name}",
            cgroup=CgroupRequest(
                path=f"{pod_path(pod)}/{name}",
                cpus=plan.default_cpus or None,
                shares=BEST_EFFORT_SHARES,
            ),
            workloads=scenario.workloads.get(f"{pod.name}/{name}", (Workload(),)),
        )
        for pod, name in ephemeral(plan, scenario, names)
    ]
    # Lightest first: a BestEffort container that starts beside busy neighbours waits seconds for its first CPU time.
    containers.sort(key=lambda container: container.cgroup.shares or 0)
    return SandboxRequest(parents=parent_requests(plan), containers=tuple(containers))


def ephemeral(plan: Plan, scenario: Scenario, names: frozenset[str] | None = None) -> tuple[tuple[PodPlan, str], ...]:
    """Return the ephemeral containers: they join a pod that runs, so they are there in the last stage only.

    No manager knows them: they run in the node's shared pool, inside the pod's cgroup (docs/failures.md F45,
    docs/facts.md K-kubelet-6).
    """
    there = {claim_name(pod, container) for pod, container in running(plan)}
    if names is not None and not there <= names:
        return ()
    admitted = {pod.name: pod for pod in plan.pods if pod.admitted}
    return tuple(
        (admitted[manifest["metadata"]["name"]], str(entry["name"]))
        for manifest in scenario.pods
        if manifest["metadata"]["name"] in admitted
        for entry in manifest["spec"].get("ephemeralContainers") or ()
    )


def claim_set(plan: Plan, scenario: Scenario, sandbox: Sandbox, names: frozenset[str] | None = None) -> ClaimSet:
    """Return what the plan promised about the containers that stand on the machine.

    :param names: the containers, see :func:`running`.
    """
    cgroups = {container.claim: container.cgroup for container in sandbox.containers}
    claims = []
    for pod, container in running(plan, names):
        name = claim_name(pod, container)
        # What does not run all the time asks for an unknown amount of CPU time.
        whole = pod.name not in scenario.arrivals and name not in scenario.restarts
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
                shares=container.shares,
                memory_bytes=container.memory_limit_bytes,
                hugepages=container.hugepages,
                alignments=container.alignments,
                preferences=container.preferences,
                max_numa_nodes=container.max_numa_nodes,
                devices=tuple(device for device in container.devices if full_address(device)),
                pod_quota_us=pod.quota_us,
                demand_cpus=_demand(name, scenario, container.cpus) if whole else None,
                contended=scenario.weights,
            )
        )
    claims += [
        Claim(
            name=f"{pod.name}/{name}",
            pod=pod.name,
            container=name,
            cgroup=cgroups[f"{pod.name}/{name}"],
            kind=SubjectKind.EPHEMERAL,
            cpus=plan.default_cpus or None,
            shares=BEST_EFFORT_SHARES,
            contended=False,
        )
        for pod, name in ephemeral(plan, scenario, names)
    ]
    return ClaimSet(
        claims=(*claims, *parent_claims(plan, sandbox.root)),
        reserved_cpus=plan.reserved_cpus,
        strict_reservation=plan.strict_reservation,
        policy=scenario.policy,
        pods_root=sandbox.root,
        transition_limit_ms=scenario.transition_limit_ms,
        noise_budget_ns_per_s=scenario.noise_budget_ns_per_s,
    )


def _demand(name: str, scenario: Scenario, cpus: CpuSet) -> float | None:
    """CPUs' worth of user-mode work that the loads offer; ``None`` if one of them offers an unknown amount."""
    loads = scenario.workloads.get(name, ())
    if not loads:
        return 0.0
    if any(load.kind not in DEMAND for load in loads):
        return None
    offered = sum(DEMAND[load.kind] * load.threads for load in loads)
    usable = 1.0 if name in scenario.pile_ups else float(len(cpus))
    return min(offered, usable) if cpus else offered


def exclusive_cpus(plan: Plan) -> CpuSet:
    """Return the CPUs that belong to one container or one pod."""
    mask = 0
    for _, container in running(plan):
        if container.isolation is not Isolation.HOST:
            mask |= container.cpus.mask
    return CpuSet(mask)
