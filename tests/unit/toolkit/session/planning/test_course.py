"""How a plan is run: which stages, by which plan, how long, what changes; and what no kernel takes is refused first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.toolkit.scenario_builder import container, machine, pod, resizing, scenario
from toolkit.errors import InputError
from toolkit.faults.registry import word_of
from toolkit.model.claims import ClaimSet
from toolkit.model.scenario import NegativeControl
from toolkit.session.planning import from_plan
from toolkit.session.planning.course import STAGE_S, Course, broken, honest
from toolkit.session.planning.planned import Planned, plan_all
from toolkit.session.planning.resizing import BEFORE


def control(fault: str, target: str = "", **more: Any) -> NegativeControl:
    """Return a control; which rule must report it plays no part here."""
    return NegativeControl(rule="applied", fault=fault, target=target, **more)


def staged() -> Planned:
    """Two stages, an init container's and the last, into which a pod comes late."""
    both = pod("db", container("c", "1"), init=(container("first", "1"),)), pod("web", container("c"))
    return plan_all(scenario(*both, arrivals=("web",)), machine(2))


def stages(course: Course) -> list[str]:
    return [step.stage.name for step in course.steps]


@pytest.mark.parametrize(
    ("target", "stage"), [("", ""), ("db/c", ""), ("db/first", "init 1"), ("web/c", ""), ("absent/c", "")]
)
def test_only_the_stage_of_the_target_is_run(target: str, stage: str) -> None:
    """The last in which it runs; a fault without a target, or of one that never runs, is made in the last."""
    work = staged()

    assert stages(honest(work)) == ["init 1", ""]
    assert stages(broken(work, control("widen-cpuset", target))) == [stage]


def test_what_comes_late_is_there_for_a_fault() -> None:
    """A fault is planted before the window opens, and its target must run."""
    assert [step.late for step in honest(staged()).steps] == [frozenset(), {"web"}]
    assert [step.late for step in broken(staged(), control("widen-cpuset", "web/c")).steps] == [frozenset()]


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
    work, wanted = plan_all(resizing(), machine(4)), control(fault, "db/c", transition_limit_ms=1.0)
    course, word = broken(work, wanted), word_of(wanted)

    assert (course.steps[-1].changes, course.ignored, course.escapes) == (changes, ignored, escapes)
    assert (course.control, course.rewrite) == (wanted, word.rewrite)
    claims = ClaimSet(claims=())
    assert course.promise(claims) == word.promise(wanted, claims)
    right = honest(staged())
    assert [step.changes for step in right.steps] == [False, True]
    assert (right.control, right.ignored, right.escapes, right.rewrite("{}")) == (None, "", False, "{}")
    assert right.promise(claims) is claims


def test_what_ignores_a_resize_has_the_quotas_of_before() -> None:
    """So it is put on the machine; what is promised is the stage's. Every other fault has the stage's own plan."""
    wanted = replace(resizing("1500m"), kubelet={"cpuManagerPolicy": "none"})
    work = plan_all(wanted, machine(4))
    before, after = honest(work).steps
    (step,) = broken(work, control("resize-ignored", "db/c")).steps
    (other,) = broken(work, control("widen-cpuset", "db/c")).steps

    assert stages(honest(work)) == [BEFORE, ""]
    assert (before.quotas, after.quotas) == (None, (work.plan, after.stage.plan))
    assert (step.request, step.quotas) == (before.request, (work.plan, step.stage.plan))
    assert (other.request, other.quotas) == (after.request, None)
    assert before.request != after.request


def test_a_node_that_is_set_up_otherwise_has_its_own_plan() -> None:
    """The promise stays the scenario's."""
    work, other = plan_all(scenario(pod("db", container("c", "1"))), machine(4)), staged()
    (step,) = broken(work, control("misconfigure-node", "db/c"), other).steps

    assert step.stage.plan == work.plan
    assert step.request == from_plan.sandbox_request(other.plan, other.scenario, step.stage.containers)
    assert step.request != honest(work).steps[-1].request


def test_how_long_it_is_watched() -> None:
    """A fault as long as it needs; an earlier stage for a second at most; the last as long as is asked for."""
    wanted = control("widen-cpuset", "db/c")

    assert [step.most_s for step in honest(staged()).steps] == [STAGE_S, float("inf")]
    assert [step.most_s for step in broken(staged(), wanted).steps] == [word_of(wanted).watch_s]


def planned(cpu: str, **more: Any) -> Planned:
    limits = {"limits": {"cpu": cpu, **more}, "requests": {"cpu": "1m"}}
    return plan_all(scenario(pod("web", {"name": "app", "resources": limits})), machine(4))


@pytest.mark.parametrize("cpu", ["175921860", "1", "500m"])
def test_what_a_kernel_takes(cpu: str) -> None:
    """Up to its own bound; memory and huge pages beyond its counter are no limit to it."""
    honest(planned(cpu, memory="8Ei"), "s.yaml")


@pytest.mark.parametrize("cpu", ["175921861", "1e15", "9223372036854775807", "9e18"])
def test_a_quota_that_none_takes(cpu: str) -> None:
    """Also where it is only put on the machine, and not promised; nothing has been made by then."""
    work = planned(cpu)
    words = r"web/app: a CPU limit of \d+ CPUs \(a quota of \d+ us\); expected at most 175921860: the kernel takes"
    with pytest.raises(InputError, match=f"^s.yaml: {words}"):
        honest(work, "s.yaml")

    for wrong in (lambda: broken(work, control("widen-cpuset")), lambda: honest(work)):
        with pytest.raises(InputError, match=f"^s: {words}"):
            wrong()
    with pytest.raises(InputError, match=f"^s: {words}"):
        broken(planned("1"), control("misconfigure-node", "web/app"), work)


def test_a_resize_counts() -> None:
    """Whatever a plan leads to is looked at before the first of it is made."""
    work = planned("1")
    with pytest.raises(InputError, match="a CPU limit of"):
        honest(replace(work, resized=planned("1e15").plan), "s.yaml")
