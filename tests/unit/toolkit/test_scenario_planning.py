"""Scenario -> plans and stages: amounts by machine, departures, init containers, admission verdicts, controls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.toolkit.scenario_builder import STATIC, container, machine, pod, scenario
from toolkit.errors import InputError
from toolkit.faults.registry import word_of
from toolkit.model.scenario import NegativeControl, Requirements
from toolkit.model.verdict import Outcome
from toolkit.session import conformance
from toolkit.session.planning import fitting
from toolkit.session.planning.admissions import admissions
from toolkit.session.planning.from_plan import sandbox_request, stages
from toolkit.session.planning.machine_amounts import amount
from toolkit.session.planning.planned import plan_all

VALUES = {"free": 7, "numa": 4, "numa-cores": 4, "socket": 7, "l3": 2, "core": 2, "numa-memory": 1 << 30}


@pytest.mark.parametrize(
    ("text", "value"),
    [("=free", 7), ("=numa+1", 5), ("=numa/2+numa/2-core", 2), ("=3+l3", 5), ("=numa-memory+1", (1 << 30) + 1)],
)
def test_amounts(text: str, value: int) -> None:
    """Terms are added and subtracted from left to right; a division belongs to its name."""
    assert amount(text, VALUES, "here") == value


@pytest.mark.parametrize(
    "text", ["=", "=cpus", "=numa*0", "=2*numa", "=numa/0", "=core-free", "=numa+", "= numa", "=" + "9" * 30]
)
def test_wrong_amounts_are_refused(text: str) -> None:
    """What is no amount, or less than nothing, is told in one line."""
    with pytest.raises(InputError, match="here"):
        amount(text, VALUES, "here")


def test_amounts_of_a_pod_fit_its_machine() -> None:
    """``=free`` is every CPU but the reserved one, on each machine."""
    whole = scenario(pod("db", container("main", "=free")))

    sets = [str(plan_all(whole, machine(cpus)).plan.pods[0].containers[0].cpus) for cpus in (2, 4)]

    assert sets == ["1", "1-3"]


def test_init_containers_run_one_after_the_other_and_sidecars_stay() -> None:
    """Two regular init containers make two stages before the last; the sidecar between them starts in its place."""
    work = plan_all(
        scenario(
            pod(
                "db",
                container("main", "1"),
                init=(container("one", "1"), container("proxy", "1", restartPolicy="Always"), container("two", "1")),
            ),
            pod("web", container("app")),
        ),
        machine(4),
    )

    found = {stage.name: sorted(stage.containers) for stage in stages(work.plan)}

    assert found == {
        "init 1": ["db/one", "web/app"],
        "init 2": ["db/proxy", "db/two", "web/app"],
        "": ["db/main", "db/proxy", "web/app"],
    }


def test_the_app_container_reuses_the_init_containers_cpu_and_not_the_sidecars() -> None:
    """The pod owns two CPUs, not three."""
    work = plan_all(
        scenario(
            pod(
                "db",
                container("main", "1"),
                init=(container("setup", "1"), container("proxy", "1", restartPolicy="Always")),
            )
        ),
        machine(4),
    )

    cpus = {one.name: one.cpus for one in work.plan.pods[0].containers}

    assert not cpus["main"] & cpus["proxy"]
    assert len(cpus["setup"] | cpus["proxy"] | cpus["main"]) == 2


def test_departed_pods_give_their_cpus_to_later_ones() -> None:
    """Two plans: the first pod owns the CPU, then it is gone and the second one owns it."""
    work = plan_all(
        scenario(pod("first", container("main", "1")), pod("second", container("main", "1")), departures=("first",)),
        machine(2),
    )

    assert work.before is not None
    assert [one.name for one in work.before.pods] == ["first"]
    assert [(one.name, one.admitted, str(one.containers[0].cpus)) for one in work.plan.pods] == [("second", True, "1")]
    assert [stage.name for stage in stages(work.plan, work.before)] == ["first", ""]
    assert {name for name, admitted, *_ in work.admissions if admitted} == {"first", "second"}


def test_ephemeral_containers_follow_the_shared_pool() -> None:
    """They are there in the last stage only, in the cgroup of their pod, on CPUs without owner."""
    one = scenario(
        pod("db", container("main", "1"), init=(container("setup", "1"),), ephemeralContainers=[{"name": "debug"}])
    )
    work = plan_all(one, machine(3))

    requests = [sandbox_request(work.plan, one, stage.containers) for stage in stages(work.plan)]

    places = [{c.claim: (c.cgroup.path, str(c.cgroup.cpus)) for c in request.containers} for request in requests]
    assert places == [
        {"db/setup": ("db/setup", "1")},
        {"db/main": ("db/main", "1"), "db/debug": ("db/debug", "0,2")},
    ]


def test_admission_is_judged_with_its_reason() -> None:
    """A refusal that was stated passes, with another reason or none stated it fails, and so does a warning."""
    huge = pod("huge", container("main", "3"))
    work = plan_all(scenario(huge), machine(2))
    stated = {"right": {"huge": "UnexpectedAdmissionError"}, "any": {"huge": ""}, "wrong": {"huge": "X"}, "none": {}}

    outcomes = {
        name: admissions(replace(work.scenario, rejected_pods=rejected), work)[0].outcome
        for name, rejected in stated.items()
    }

    assert outcomes == {
        "right": Outcome.PASSED,
        "any": Outcome.PASSED,
        "wrong": Outcome.FAILED,
        "none": Outcome.FAILED,
    }


def test_an_empty_shared_pool_is_told_by_the_plan() -> None:
    """Strict reservation and exclusive containers on all other CPUs: the verdict about the node fails."""
    one = replace(scenario(pod("web", container("app"))), kubelet={**STATIC, "cpuManagerPolicyOptions": STRICT})
    control = NegativeControl(
        rule="admission",
        fault="change-node",
        subject="node",
        pods=(pod("filler", container("main", "=free")),),
    )

    honest = admissions(one, plan_all(one, machine(2)))
    broken = admissions(one, plan_all(word_of(control).vary(control, one), machine(2)))

    assert [verdict.outcome for verdict in honest] == [Outcome.PASSED, Outcome.PASSED]
    assert {verdict.subject: verdict.outcome for verdict in broken} == {"web": Outcome.PASSED, "node": Outcome.FAILED}


STRICT = {"strict-cpu-reservation": "true"}


def test_controls_with_the_same_fault_share_a_run() -> None:
    """Only what must notice differs; another target or setting is another fault."""
    widen = NegativeControl(rule="applied", fault="widen-cpuset", target="db/main")
    one = scenario(
        pod("db", container("main", "1")),
        negative_controls=(
            widen,
            replace(widen, rule="affinity-mask"),
            replace(widen, rule="exclusive-cpus", subject="web/app"),
            replace(widen, target="web/app"),
        ),
    )

    groups = conformance.fault_groups(one)

    assert [len(group) for group in groups] == [3, 1]
    assert conformance.count_runs(one) == 3


@pytest.mark.parametrize(
    ("requires", "lacks"),
    [
        (Requirements(cpus=2), None),
        (Requirements(cpus=3), "3 CPUs (this machine has 2)"),
        (Requirements(numa_nodes=2, sockets=2), "2 NUMA nodes with CPUs"),
        (Requirements(threads_per_core=2), "1 cores of 2 threads (this machine has 0)"),
        (Requirements(memory_mib=8192), "8192 MiB of memory"),
        (Requirements(hugepages_2mib=2), "2 huge pages of 2 MiB"),
        (Requirements(hugepages_2mib_a_node=1), "1 huge pages of 2 MiB on each NUMA node"),
        (Requirements(hugepages_1gib=1), "1 huge pages of 1 GiB"),
        (Requirements(memory_nodes=2), "2 NUMA nodes with memory"),
        (Requirements(max_numa_nodes=1), None),
        (Requirements(even_numa_nodes=True), None),
    ],
)
def test_misfits_name_what_is_lacking(requires: Requirements, lacks: str | None) -> None:
    """A scenario that does not fit says which part of the machine is too small."""
    found = fitting.unmet(requires, machine(2))

    assert found is None if lacks is None else lacks in (found or "")


def test_a_fault_that_changes_nothing_is_told() -> None:
    """A container with all CPUs cannot get more: such a control is missed on this machine, whatever the rules do."""
    work = plan_all(scenario(pod("own", container("main", "1")), pod("shared", container("main"))), machine(2))

    def idle(target: str, fault: str) -> str | None:
        return conformance.idle_fault(work, NegativeControl(rule="applied", fault=fault, target=target))

    assert idle("own/main", "widen-cpuset") is None
    alone = plan_all(scenario(pod("shared", container("main"))), machine(2))
    control = NegativeControl(rule="applied", fault="widen-cpuset", target="shared/main")
    assert conformance.idle_fault(alone, control) == "shared/main has all CPUs (0-1) anyway: nothing to widen"
    assert idle("shared/main", "widen-cpuset") is None
    assert idle("own/main", "set-quota") is None
    assert idle("own/main", "far-cpuset") == "own/main has CPUs of every NUMA node: none is far"


def test_a_pod_that_the_api_refuses_is_refused_and_the_others_are_planned() -> None:
    """KEP-5526, failure case: containers beyond the pod's budget. No mistake of the file, an answer to that pod."""
    budget = {"requests": {"cpu": "1", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
    over = pod("over", container("a", "1"), container("b", "1"), resources=budget)
    work = plan_all(scenario(over, pod("web", container("main", "1")), rejected_pods={"over": "Invalid"}), machine(2))

    refused, admitted = work.plan.pods
    assert (refused.admitted, refused.reason) == (False, "Invalid")
    assert refused.message.startswith("API validation: pod over: spec.resources: containers request 2 cpu, the pod 1")
    assert str(admitted.containers[0].cpus) == "1"
    assert {v.outcome for v in admissions(work.scenario, work)} == {Outcome.PASSED}
