"""Room on a scenario's node: whatever happens, a pod that finds too little is refused as by the kubelet's predicate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.scenario_builder import container, machine, pod, resizing, scenario
from toolkit.model.scenario import Scenario
from toolkit.model.serde import from_json
from toolkit.model.verdict import Outcome
from toolkit.scenario_file import load_scenario
from toolkit.session.planning.admissions import RESTART, admissions, unexpected_admission
from toolkit.session.planning.planned import plan_all

OWNER = pod("db", container("c", "1"))
"""It has all that two CPUs have, but for the reserved one."""
SOME = pod("web", {"name": "c", "resources": {"requests": {"cpu": "100m"}}})
NOTHING = pod("web", {"name": "c", "resources": {"requests": {"memory": "64Mi"}}})
WHY = "Node didn't have enough resource: cpu, requested: {asked}, used: {used}, capacity: 1000"


@pytest.mark.parametrize(
    ("pods", "more", "refused", "asked", "used"),
    [
        ((OWNER, SOME), {}, "web", 100, 1000),
        ((pod("old", container("c", "1")), OWNER, SOME), {"departures": ("old",)}, "web", 100, 1000),
        ((SOME, OWNER), {"leaves": ("db",)}, "db", 1000, 100),
        ((OWNER, SOME), {"kubelet_restart": {}}, "web", 100, 1000),
        ((OWNER, SOME), {"resizes": (OWNER,)}, "web", 100, 1000),
    ],
    ids=["arrival", "departure", "visit", "restart", "resize"],
)
def test_a_pod_that_finds_too_little_room_is_refused(
    pods: tuple[dict[str, Any], ...], more: dict[str, Any], refused: str, asked: int, used: int
) -> None:
    """Every way to plan a scenario asks the last of the admit handlers, too."""
    crowded = scenario(*pods, **more)
    reasons = {name: (reason, message) for name, admitted, reason, message in _admissions(crowded) if not admitted}

    assert reasons == {refused: ("OutOfcpu", WHY.format(asked=asked, used=used))}
    assert "OutOfcpu" in (unexpected_admission(crowded, plan_all(crowded, machine(2))) or "")


def _admissions(crowded: Scenario) -> tuple[tuple[str, bool, str, str], ...]:
    return plan_all(crowded, machine(2)).admissions


def test_a_pod_that_asks_for_nothing_finds_room_everywhere() -> None:
    """A pod without a request of CPU time is admitted beside one that has all of it."""
    full = scenario(OWNER, NOTHING)

    assert unexpected_admission(full, plan_all(full, machine(2))) is None


def test_a_container_that_departs_leaves_no_room() -> None:
    """Its pod still counts with all that it asks for; the pod that departs does not."""
    pair = pod("db", container("c", "1"), {"name": "d"})
    for leaving, reason in (("db/d", "OutOfcpu"), ("db", "")):
        found = {name: why for name, _, why, _ in _admissions(scenario(pair, SOME, departures=(leaving,)))}
        assert found["web"] == reason


def test_a_resize_beyond_the_room_waits() -> None:
    """As on a node: what the pod already has counts once."""
    beside = replace(resizing("3"), pods=(OWNER, SOME))
    answer = plan_all(beside, machine(4)).answers[0]

    assert (answer.done, answer.text.partition(":")[0]) == (False, "Deferred")


def test_a_kubelet_that_reserves_more_does_not_admit_what_runs() -> None:
    """A pod that finds no room then is not admitted again: rule ``admission`` names it and why."""
    settings = {"reservedSystemCPUs": None, "kubeReserved": {"cpu": "1900m"}}
    fits = Scenario(
        name="s",
        title="t",
        kubelet={"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1500m"}},
        pods=(SOME, {**SOME, "metadata": {"name": "late"}}),
        kubelet_restart=settings,
    )
    work = plan_all(fits, machine(2))
    verdict = next(one for one in admissions(fits, work) if one.subject == RESTART)

    assert verdict.outcome is Outcome.FAILED
    assert "it does not admit pod late, which runs, again: OutOfcpu" in verdict.reason


@pytest.mark.parametrize(("reason", "outcome"), [("OutOfcpu", Outcome.PASSED), ("OutOfmemory", Outcome.FAILED)])
def test_the_refusal_can_be_what_a_scenario_states(tmp_path: Path, reason: str, outcome: Outcome) -> None:
    """``rejectedPods`` takes its reasons as those of the managers."""
    file = tmp_path / "s.yaml"
    file.write_text(
        "apiVersion: pinproof/v1\nkind: Scenario\nname: s\ntitle: t\n"
        'kubelet: {cpuManagerPolicy: static, reservedSystemCPUs: "0"}\n'
        f"rejectedPods: {{web: {reason}}}\npods:\n"
        "  - apiVersion: v1\n    kind: Pod\n    metadata: {name: web}\n"
        "    spec: {containers: [{name: c, resources: {requests: {cpu: 1100m}}}]}\n"
    )
    crowded = load_scenario(file)
    (verdict,) = [one for one in admissions(crowded, plan_all(crowded, machine(2))) if one.subject == "web"]

    assert verdict.outcome is outcome


def test_a_scenario_that_an_earlier_version_saved_is_read_as_it_was_planned() -> None:
    """Its managers decided alone."""
    text = '{"name": "s", "title": "t", "predicate": false}'

    assert not from_json(Scenario, text, "scenario.json").predicate
    assert Scenario(name="s", title="t").predicate
