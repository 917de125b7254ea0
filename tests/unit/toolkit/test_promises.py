"""Plan -> requests and claims: the kubelet's tree shape, and nothing promised that was not planned."""

from __future__ import annotations

from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, ContainerRole, Plan, PodPlan, QosClass
from toolkit.model.sandbox import Sandbox, SandboxContainer, Workload, WorkloadKind
from toolkit.model.scenario import Scenario
from toolkit.pipeline.promises import claim_set, sandbox_request


def container(name: str, cpus: str, isolation: Isolation, quota_us: int, role: ContainerRole) -> ContainerPlan:
    """Return a container's share."""
    return ContainerPlan(
        name=name,
        role=role,
        cpus=CpuSet.parse(cpus),
        assigned=CpuSet.parse(cpus) if isolation is Isolation.CONTAINER else None,
        isolation=isolation,
        mems=None,
        quota_us=quota_us,
        period_us=100_000,
        shares=102,
    )


def pod(name: str, qos: QosClass, *containers: ContainerPlan, admitted: bool = True) -> PodPlan:
    """Return one pod."""
    return PodPlan(uid=name, name=name, qos_class=qos, admitted=admitted, shares=102, containers=containers)


PLAN = Plan(
    cpu_manager_policy="static",
    reserved_cpus=CpuSet.parse("0"),
    strict_reservation=True,
    default_cpus=CpuSet.parse("1-2"),
    pods=(
        pod(
            "db",
            QosClass.GUARANTEED,
            container("setup", "3", Isolation.CONTAINER, -1, ContainerRole.INIT),
            container("main", "3", Isolation.CONTAINER, -1, ContainerRole.APP),
        ),
        pod("web", QosClass.BURSTABLE, container("app", "1-2", Isolation.HOST, 50_000, ContainerRole.APP)),
        pod("job", QosClass.BEST_EFFORT, container("run", "", Isolation.HOST, -1, ContainerRole.APP)),
        pod("no", QosClass.GUARANTEED, admitted=False),
    ),
)
SCENARIO = Scenario(
    name="s",
    title="t",
    workloads={
        "db/main": (Workload(kind=WorkloadKind.SPIN, threads=4),),
        "web/app": (Workload(kind=WorkloadKind.SPIN, threads=1), Workload(kind=WorkloadKind.FORK_STORM)),
    },
)
SANDBOX = Sandbox(
    run_id="r",
    root="/pinproof-r",
    runtime="cgroupfs",
    containers=tuple(
        SandboxContainer(claim=name, cgroup=f"/pinproof-r/{name}", pids=())
        for name in ("db/main", "web/app", "job/run")
    ),
)


def test_the_tree_has_the_kubelets_shape() -> None:
    """QoS cgroups above Burstable and BestEffort pods; cpusets on containers only; refused pods nowhere."""
    request = sandbox_request(PLAN, SCENARIO)

    assert [p.path for p in request.parents] == ["burstable", "besteffort", "db", "burstable/web", "besteffort/job"]
    assert {None} == {parent.cpus for parent in request.parents}
    assert {one.claim: (one.cgroup.path, str(one.cgroup.cpus)) for one in request.containers} == {
        "db/main": ("db/main", "3"),
        "web/app": ("burstable/web/app", "1-2"),
        "job/run": ("besteffort/job/run", "None"),
    }


def test_claims_promise_what_was_planned() -> None:
    """CPUs, isolation and quota come from the plan; a container without CPU set is promised no place."""
    claims = claim_set(PLAN, SCENARIO, SANDBOX)

    by_name = {claim.name: claim for claim in claims.claims}
    assert (CpuSet.parse("0"), True, "/pinproof-r") == (
        claims.reserved_cpus,
        claims.strict_reservation,
        claims.pods_root,
    )
    assert (
        by_name["db/main"].isolation,
        by_name["db/main"].quota_us,
        str(by_name["db/main"].cpus),
    ) == (Isolation.CONTAINER, NO_QUOTA, "3")
    assert by_name["web/app"].quota_us == 50_000
    assert by_name["job/run"].cpus is None
    assert {-1} == {claim.pod_quota_us for claim in by_name.values()}


def test_demand_is_known_only_for_user_mode_spinners() -> None:
    """Four spinners on one CPU ask for one CPU; a fork storm asks for an unknown amount; sleepers ask for none."""
    claims = {claim.name: claim.demand_cpus for claim in claim_set(PLAN, SCENARIO, SANDBOX).claims}

    assert claims == {"db/main": 1.0, "web/app": None, "job/run": 0.0}
