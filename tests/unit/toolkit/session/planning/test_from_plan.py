"""Plan -> requests and claims: the kubelet's tree shape, and nothing promised that was not planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolkit.model.claims import NO_QUOTA, Claim, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerPlan, ContainerRole, Plan, PodPlan, QosClass
from toolkit.model.sandbox import Sandbox, SandboxContainer, Workload, WorkloadKind
from toolkit.model.scenario import Scenario
from toolkit.session.engine.session import ledgered
from toolkit.session.planning.from_plan import claim_set, sandbox_request
from toolkit.session.planning.tree import qos_requests


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
    return PodPlan(
        uid=name, name=name, qos_class=qos, admitted=admitted, shares=102, cpu_request_milli=100, containers=containers
    )


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
        replace(
            pod("web", QosClass.BURSTABLE, container("app", "1-2", Isolation.HOST, 50_000, ContainerRole.APP)),
            quota_us=50_000,
            memory_limit_bytes=1 << 26,
        ),
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

    by_name = {claim.name: claim for claim in claims.claims if claim.kind.carries_tasks}
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
    assert {name: claim.pod_quota_us for name, claim in by_name.items()} == {
        "db/main": -1,
        "web/app": 50_000,
        "job/run": -1,
    }


def test_every_cgroup_that_carries_a_promise_has_a_claim() -> None:
    """Pods promise quota, weight and memory limit, QoS classes no quota and a weight; refused pods nothing."""
    claims = claim_set(PLAN, SCENARIO, SANDBOX).claims

    assert {
        claim.name: (claim.cgroup, claim.kind, claim.quota_us, claim.shares, claim.memory_bytes, claim.cpus)
        for claim in claims
        if not claim.kind.carries_tasks
    } == {
        "burstable/(qos)": ("/pinproof-r/burstable", SubjectKind.QOS, NO_QUOTA, 102, None, None),
        "besteffort/(qos)": ("/pinproof-r/besteffort", SubjectKind.QOS, NO_QUOTA, 2, None, None),
        "db/(pod)": ("/pinproof-r/db", SubjectKind.POD, NO_QUOTA, 102, None, None),
        "web/(pod)": ("/pinproof-r/burstable/web", SubjectKind.POD, 50_000, 102, 1 << 26, None),
        "job/(pod)": ("/pinproof-r/besteffort/job", SubjectKind.POD, NO_QUOTA, 102, None, None),
    }
    assert {claim.shares for claim in claims} == {2, 102}


@pytest.mark.parametrize(
    ("milli", "shares"), [((100, 100, 100), 307), ((100, 0, 0), 102), ((0, 0), 2), ((200_000, 200_000), 262_144)]
)
def test_a_class_has_the_weight_of_all_requests_together(milli: tuple[int, ...], shares: int) -> None:
    """Rounded once, not for each pod: 3 x 100m are 307, where each by itself has 102; at most what the kernel takes."""
    pods = tuple(
        replace(pod(f"p{number}", QosClass.BURSTABLE), cpu_request_milli=each) for number, each in enumerate(milli)
    )
    (burstable,) = qos_requests(replace(PLAN, pods=pods))
    assert burstable.shares == shares


def test_what_is_claimed_is_asked_for() -> None:
    """Each promise about a pod or QoS class is also written: the request has the same values."""
    asked = {f"/pinproof-r/{one.path}": one for one in sandbox_request(PLAN, SCENARIO).parents}

    for claim in claim_set(PLAN, SCENARIO, SANDBOX).claims:
        if not claim.kind.carries_tasks:
            one = asked.pop(claim.cgroup)
            assert (one.quota_us or NO_QUOTA, one.shares, one.memory_max_bytes) == (
                claim.quota_us,
                claim.shares,
                claim.memory_bytes,
            )
    assert not asked


def test_the_ledger_counts_for_cgroups_with_tasks_only() -> None:
    """Else a stranger's task below a pod or a QoS class would be taken for its own; without one below, it is read."""
    claims = claim_set(PLAN, SCENARIO, SANDBOX)
    nested = replace(claims, claims=tuple(replace(c, cgroup=f"/r/burstable/{c.name}") for c in claims.claims[:1]))
    above = Claim(name="above", cgroup="/r/burstable", kind=SubjectKind.QOS)
    alone = Claim(name="alone", cgroup="/r/burst", kind=SubjectKind.POD)

    found = ledgered(replace(nested, claims=(*nested.claims, above, alone)))

    assert [claim.name for claim in found] == ["db/main", "alone"]


def test_demand_is_known_only_for_user_mode_spinners() -> None:
    """Four spinners on one CPU ask for one CPU; a fork storm asks for an unknown amount; sleepers ask for none."""
    claims = {claim.name: claim.demand_cpus for claim in claim_set(PLAN, SCENARIO, SANDBOX).claims}

    assert {"db/main": 1.0, "web/app": None, "job/run": 0.0}.items() <= claims.items()
    assert {demand for name, demand in claims.items() if name.endswith(")")} == {None}
