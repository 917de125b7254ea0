"""What a broken run does otherwise than an honest one: which stages, which plan, how long, what is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.toolkit.scenario_builder import container, machine, pod, resizing, scenario
from toolkit.model.claims import ClaimSet
from toolkit.model.scenario import NegativeControl
from toolkit.session.engine.breach import STAGE_S, Broken, Honest
from toolkit.session.planning.planned import Planned, plan_all
from toolkit.session.planning.resizing import BEFORE

NOTHING = ClaimSet(claims=())


def control(fault: str, target: str = "", **more: Any) -> NegativeControl:
    """Return a control; which rule must report it plays no part here."""
    return NegativeControl(rule="applied", fault=fault, target=target, **more)


def staged() -> Planned:
    """Two stages, an init container's and the last, into which a pod comes late."""
    both = pod("db", container("c", "1"), init=(container("first", "1"),)), pod("web", container("c"))
    return plan_all(scenario(*both, arrivals=("web",)), machine(2))


@pytest.mark.parametrize(
    ("target", "stage"), [("", ""), ("db/c", ""), ("db/first", "init 1"), ("web/c", ""), ("nobody/c", "")]
)
def test_only_the_stage_of_the_target_is_run(target: str, stage: str) -> None:
    """The last in which it runs; who has no target, or one that never runs, is broken in the last."""
    work = staged()

    assert [one.name for one in Honest(work=work).stages()] == ["init 1", ""]
    assert [one.name for one in Broken(work=work, control=control("widen-cpuset", target)).stages()] == [stage]


def test_who_comes_late_is_there_for_a_fault() -> None:
    """A fault is planted before the window opens, and its target must run."""
    assert Honest(work=staged()).late == {"web"}
    assert Broken(work=staged(), control=control("widen-cpuset", "web/c")).late == frozenset()


@pytest.mark.parametrize(
    ("fault", "changes", "ignored", "escapes"),
    [
        ("widen-cpuset", False, "", False),
        ("resize-ignored", True, "db/c", False),
        ("tight-limit", True, "", False),
        ("canary-escape", False, "", True),
        ("torn-state", False, "", False),
    ],
)
def test_a_fault_acts_at_its_own_step(fault: str, changes: bool, ignored: str, escapes: bool) -> None:
    """What the scenario changes is changed only where the fault is about that; an honest run changes in the last."""
    way = Broken(work=plan_all(resizing(), machine(4)), control=control(fault, "db/c", transition_limit_ms=1.0))

    assert (way.changes(last=True), way.ignored, way.escapes) == (changes, ignored, escapes)
    assert (way.rewrite is way.word.rewrite, Honest(work=way.work).rewrite("{}")) == (True, "{}")
    honest = Honest(work=way.work)
    assert (honest.changes(last=True), honest.changes(last=False), honest.ignored, honest.escapes) == (
        True,
        False,
        "",
        False,
    )


def test_who_ignores_a_resize_has_the_quotas_of_before() -> None:
    """So it is put on the machine; what is promised is the stage's. Every other fault has the stage's own plan."""
    wanted = replace(resizing("1500m"), kubelet={"cpuManagerPolicy": "none"})
    work = plan_all(wanted, machine(4))
    (stage,) = Broken(work=work, control=control("resize-ignored", "db/c")).stages()

    assert [one.name for one in Honest(work=work).stages()] == [BEFORE, ""]
    assert Broken(work=work, control=control("resize-ignored", "db/c")).put(stage) == work.plan != stage.plan
    assert Broken(work=work, control=control("widen-cpuset", "db/c")).put(stage) == stage.plan


def test_a_node_that_is_set_up_otherwise_has_its_own_plan() -> None:
    """The promise stays the scenario's."""
    work, other = plan_all(scenario(pod("db", container("c", "1"))), machine(4)), staged()
    way = Broken(work=work, control=control("misconfigure-node", "db/c"), other=other)
    (stage,) = way.stages()

    assert (way.node, way.put(stage), stage.plan) == (other, other.plan, work.plan)
    assert Broken(work=work, control=control("widen-cpuset", "db/c")).node is work


def test_how_long_it_is_watched() -> None:
    """A fault as long as it needs, never longer than was asked for; an earlier stage for a second at most."""
    honest, broken = Honest(work=staged()), Broken(work=staged(), control=control("widen-cpuset", "db/c"))

    assert honest.seconds(5.0, NOTHING, brief=False, last=True) == 5.0
    assert honest.seconds(5.0, NOTHING, brief=False, last=False) == STAGE_S
    assert honest.seconds(5.0, NOTHING, brief=True, last=True) < 5.0
    assert broken.seconds(5.0, NOTHING, brief=True, last=True) == broken.word.watch_s < 5.0
    assert broken.seconds(0.1, NOTHING, brief=False, last=True) == 0.1
