"""Each promise of each scenario of the catalogue can fail: its evidence is edited, and a rule must say so.

The machine is the lab's that the scenario is dealt to; as it stands nothing may fail there.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from tests.lab.harness.catalogue import dealt, machine, scenarios
from tests.unit.catalogue.decisions import REFUSAL, decisions
from tests.unit.catalogue.edits import edits
from tests.unit.catalogue.moved import displaced, miscalculated, moved
from tests.unit.catalogue.stand import Stand, stand
from toolkit.faults.registry import word_of
from toolkit.model.claims import Isolation
from toolkit.model.scenario import Expectation, NegativeControl
from toolkit.model.verdict import Outcome
from toolkit.session.planning.admissions import ADMISSION, admissions
from toolkit.session.planning.fitting import unmet
from toolkit.session.planning.judged import EXPECTED, KEPT, STATED, judged
from toolkit.session.planning.planned import Planned, config_of, plan_all
from toolkit.session.planning.resizing import containers
from validators.registry import judge, rule_named

PLACES = {name: place for place, names in dealt().items() for name in names}


@functools.cache
def stand_of(name: str) -> Stand:
    """Return a scenario on its machine."""
    return stand(scenarios()[name], machine(PLACES[name]))


def test_every_scenario_has_a_machine() -> None:
    """None fits nowhere."""
    assert set(scenarios()) == set(PLACES)


@pytest.mark.parametrize("name", sorted(PLACES))
def test_nothing_fails_on_a_healthy_machine(name: str) -> None:
    """The plan keeps all that is promised, and what it gives is all that is needed."""
    one = stand_of(name)

    verdicts = judge(one.claims, one.evidence)

    assert [f"{v.rule} {v.subject}: {v.reason}" for v in verdicts if v.outcome is Outcome.FAILED] == []


@pytest.mark.parametrize("name", sorted(PLACES))
def test_every_promise_can_fail(name: str) -> None:
    """Whatever is promised, at whatever level: evidence that breaks it is not judged to be healthy."""
    one = stand_of(name)
    silent = []
    for edit in edits(one):
        verdicts = judge(one.claims, edit.evidence, [rule_named(edit.rule)])
        if not any(v.outcome is Outcome.FAILED and v.subject == edit.subject for v in verdicts):
            silent.append((edit.promise, edit.rule, edit.subject))

    assert silent == []


@pytest.mark.parametrize("name", sorted(PLACES))
def test_every_refusal_can_fail(name: str) -> None:
    """What must be refused, a pod, a resize, a restart: a node that does not refuse it is noticed."""
    scenario = scenarios()[name]
    silent = []
    for subject, turned in decisions(plan_all(scenario, machine(PLACES[name]))):
        verdicts = admissions(scenario, turned)
        if not any(v.outcome is Outcome.FAILED and v.subject == subject for v in verdicts):
            silent.append(subject)

    assert silent == []


def notices(subject: str, work: Planned) -> bool:
    """Whether the rule ``admission`` fails about a subject."""
    return any(v.outcome is Outcome.FAILED and v.subject == subject for v in admissions(work.scenario, work))


def fails(work: Planned) -> bool:
    """Whether the rule ``admission`` fails about anything."""
    return any(v.outcome is Outcome.FAILED for v in admissions(work.scenario, work))


@pytest.mark.parametrize("name", sorted(PLACES))
def test_cpus_that_are_moved_are_noticed(name: str) -> None:
    """Owners of CPUs have others after a change, or others than are expected; weights, quotas and limits are wrong."""
    work = plan_all(scenarios()[name], machine(PLACES[name]))
    silent = [subject for subject, turned in moved(work) if not notices(subject, turned)]
    silent += [f"{one}: {key}" for one, key, turned in displaced(work) if not notices(one, turned)]

    assert silent == []
    assert [kind for kind, turned in miscalculated(work) if not fails(turned)] == []


STATED_OF_ALL = ("quota_us", "pod_quota_us", "shares", "memory_max")


@pytest.mark.parametrize("name", sorted(PLACES))
def test_each_container_has_its_values_stated(name: str) -> None:
    """Each quota, weight and limit, how many CPUs are its own, and with the Memory Manager where its memory is."""
    scenario = scenarios()[name]
    work = plan_all(scenario, machine(PLACES[name]))
    given = {one: pair for plan in work.every_plan for one, pair in containers(plan).items()}
    static = config_of(scenario).memory_manager_policy == "Static"
    unstated = []
    for subject, (_, one) in given.items():
        wanted = scenario.expect.get(subject, Expectation())
        unstated += [f"{subject}: {part}" for part in STATED_OF_ALL if getattr(wanted, part) is None]
        if one.isolation is not Isolation.HOST and wanted.count is None and not wanted.cpus:
            unstated.append(f"{subject}: count")
        if static and not wanted.mems:
            unstated.append(f"{subject}: mems")

    assert unstated == []


OTHER_NODES = [
    (name, control)
    for name, scenario in sorted(scenarios().items())
    for control in scenario.negative_controls
    if control.rule == ADMISSION and unmet(control.requires, machine(PLACES[name])) is None
]


@pytest.mark.parametrize(("name", "control"), OTHER_NODES, ids=[f"{n}-{c.subject}" for n, c in OTHER_NODES])
def test_another_node_is_noticed(name: str, control: NegativeControl) -> None:
    """The controls of the rule ``admission`` where their scenario is run: none that cannot even be planned."""
    other = plan_all(word_of(control).vary(control, scenarios()[name]), machine(PLACES[name]))

    assert notices(control.subject, replace(other, scenario=scenarios()[name]))


def test_no_promise_is_left_unbroken() -> None:
    """Every word of ``conformance --list`` is broken in some scenario that says it: what is judged can fail."""
    listed = {word: name for name, scenario in scenarios().items() for word in judged(scenario)}
    broken = {edit.promise for name in PLACES for edit in edits(stand_of(name))}
    for name in PLACES:
        work = plan_all(scenarios()[name], machine(PLACES[name]))
        turned = (
            (REFUSAL, decisions(work)),
            (KEPT, moved(work)),
            (EXPECTED, displaced(work)),
            (STATED, displaced(work)),
        )
        broken |= {word for word, found in turned if any(True for _ in found)}

    assert {word: name for word, name in listed.items() if word not in broken} == {}


FROM_FILES = ("applied", "numa-alignment", "smt-alignment", "socket-alignment")
"""Rules that a sandbox's files are enough for: of which task ran where, a machine that does not exist tells nothing."""
SET_UP_OTHERWISE = [
    (name, control)
    for name, scenario in sorted(scenarios().items())
    for control in scenario.negative_controls
    if control.fault == "misconfigure-node" and control.rule in FROM_FILES
]


@pytest.mark.parametrize(("name", "control"), SET_UP_OTHERWISE, ids=[f"{n}-{c.rule}" for n, c in SET_UP_OTHERWISE])
def test_a_node_that_is_set_up_otherwise_is_noticed(name: str, control: NegativeControl) -> None:
    """The controls that set a node up by other settings, as its files would show them: an option off, a period."""
    real = stand(word_of(control).vary(control, scenarios()[name]), machine(PLACES[name]))

    verdicts = judge(stand_of(name).claims, real.evidence, [rule_named(control.rule)])

    assert [v.outcome for v in verdicts if v.subject == control.target] == [Outcome.FAILED]
