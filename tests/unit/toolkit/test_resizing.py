"""Resizes of scenarios: what the node answers, what is promised before and after, what the state file adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.toolkit.scenario_builder import STATIC, container, machine, pod, resizing, scenario
from toolkit.errors import InputError
from toolkit.faults.registry import WORDS
from toolkit.model.layers import Layer
from toolkit.model.sandbox import Sandbox, SandboxContainer
from toolkit.model.scenario import ResizeBehaviour
from toolkit.model.verdict import Outcome
from toolkit.session.engine import kubelet_state
from toolkit.session.planning.admissions import admissions
from toolkit.session.planning.from_plan import claim_set, stages
from toolkit.session.planning.planned import Planned, plan_all, plan_scenario
from toolkit.session.planning.resizing import BEFORE, parted, resized_claims


def cpus(work: Planned, *, resized: bool) -> dict[str, str]:
    """Return the CPUs of each pod's container."""
    found = work.resized if resized else work.plan
    assert found is not None
    return {one.name: str(one.containers[0].cpus) for one in found.pods}


def test_growing_takes_cpus_from_the_pool() -> None:
    """KEP-5554: the CPU of the creation stays, the new one leaves the shared pool."""
    work = plan_all(resizing(), machine(4))

    assert cpus(work, resized=False) == {"db": "1", "web": "0,2-3"}
    assert cpus(work, resized=True) == {"db": "1-2", "web": "0,3"}
    assert [(answer.pod, answer.done) for answer in work.answers] == [("db", True)]
    assert plan_scenario(resizing(), machine(4)) == work.resized


def test_v1_36_moves_no_container() -> None:
    """With the gate the answer is yes, and the plan's CPUs are those of before."""
    work = plan_all(resizing(resize_behaviour=ResizeBehaviour.V1_36), machine(4))

    assert work.answers[0].done
    assert cpus(work, resized=True) == cpus(work, resized=False)


@pytest.mark.parametrize(
    ("fields", "rejected", "outcome"),
    [
        ({}, {}, Outcome.PASSED),
        ({}, {"db": "Infeasible"}, Outcome.FAILED),
        ({"kubelet": STATIC}, {}, Outcome.FAILED),
        ({"kubelet": STATIC}, {"db": 'CPU Manager policy "static"'}, Outcome.PASSED),
        ({"kubelet": STATIC}, {"db": "Deferred"}, Outcome.FAILED),
    ],
)
def test_the_answer_is_compared(fields: dict[str, Any], rejected: dict[str, str], outcome: Outcome) -> None:
    """Done or not, and the words: anything else than stated fails, about the resize."""
    work = plan_all(resizing(rejected_resizes=rejected, **fields), machine(4))

    verdicts = admissions(work.scenario, work)

    assert [v.outcome for v in verdicts if v.subject == "db (resize)"] == [outcome]


def test_the_answer_names_what_refuses_first() -> None:
    """Without the gate, too: what the node cannot hold at all does not come as far as its static policy."""
    texts = [plan_all(resizing(cpu, kubelet=STATIC), machine(4)).answers[0].text for cpu in ("4", "2")]

    text = "node didn't have enough allocatable resources: cpu, requested: 4000, allocatable: 3000"
    assert texts[0] == f'Forbidden: pods "db" is forbidden: {text}'
    assert texts[1].startswith("Infeasible: Resize is infeasible for Guaranteed Pods")


def test_promises_follow_the_resize() -> None:
    """Afterwards the claims have the new sets; how much work a changed container gets done is not known any more."""
    work = plan_all(resizing(), machine(4))
    assert work.resized is not None
    places = tuple(SandboxContainer(claim=f"{name}/c", cgroup=f"/{name}/c", pids=()) for name in ("db", "web"))
    claims = claim_set(work.plan, work.scenario, Sandbox(run_id="r", root="/r", runtime="cgroupfs", containers=places))

    after = resized_claims(claims, work.resized)

    tasks = [claim for claim in after.claims if claim.kind.carries_tasks]
    assert [(claim.name, str(claim.cpus)) for claim in tasks] == [("db/c", "1-2"), ("web/c", "0,3")]
    assert {claim.demand_cpus for claim in after.claims} == {None}


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": True},
        {"departures": ("web",)},
    ],
)
def test_what_one_window_cannot_judge_is_refused(wrong: dict[str, Any]) -> None:
    """Weights and departures are told in one line."""
    with pytest.raises(InputError):
        plan_all(resizing(**wrong), machine(4))


def test_windows_part_where_a_quota_changes() -> None:
    """The quotas of before have a stage of their own, without pods that come late; CPUs change in an open window."""
    work = plan_all(resizing(kubelet={"cpuManagerPolicy": "none"}, arrivals=("web",)), machine(4))
    whole = stages(work.plan)

    first, last = parted(work.scenario, whole, work.resized)

    assert (first.name, sorted(first.containers)) == (BEFORE, ["db/c"])
    assert (last.name, sorted(last.containers)) == ("", ["db/c", "web/c"])
    quotas = [[(pod.quota_us, pod.containers[0].quota_us) for pod in one.plan.pods] for one in (first, last)]
    assert quotas == [[(100_000, 100_000), (-1, -1)], [(200_000, 200_000), (-1, -1)]]
    exclusive = plan_all(resizing(), machine(4))
    assert parted(exclusive.scenario, stages(exclusive.plan), exclusive.resized) == stages(exclusive.plan)


def test_model_and_state_file_speak() -> None:
    """Both tell the same about every container that runs; a file torn between two saves differs about the pool."""
    work = plan_all(scenario(pod("db", container("c", "1")), pod("web", container("c"))), machine(4))
    stage = stages(work.plan)[-1]

    def said(rewrite: Callable[[str], str] = str) -> dict[str, dict[Layer, str]]:
        reading = kubelet_state.state_reading(work, stage, rewrite)
        assert reading.cpu is not None
        found: dict[str, dict[Layer, str]] = {}
        for view in kubelet_state.layer_views(stage.plan, stage.containers, reading.cpu):
            found.setdefault(view.claim, {})[view.layer] = str(view.cpus)
        return found

    assert said() == {
        "db/c": {Layer.MODEL: "1", Layer.CHECKPOINT: "1"},
        "web/c": {Layer.MODEL: "0,2-3", Layer.CHECKPOINT: "0,2-3"},
    }
    assert said(WORDS["torn-state"].rewrite)["web/c"] == {Layer.MODEL: "0,2-3", Layer.CHECKPOINT: "0-3"}
