"""Each promise of each scenario of the catalogue can fail: its evidence is edited, and a rule must say so.

The machine is the lab's that the scenario is dealt to; as it stands nothing may fail there.
"""

from __future__ import annotations

import functools

import pytest

from tests.lab.harness.catalogue import dealt, machine, scenarios
from tests.unit.catalogue.edits import edits
from tests.unit.catalogue.stand import Stand, stand
from toolkit.faults.registry import word_of
from toolkit.model.verdict import Outcome
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


def test_a_node_without_distribution_is_noticed() -> None:
    """The control of ``numa-distributed``: a node with the option off fills one node first, which is no even spread."""
    scenario = scenarios()["numa-distributed"]
    control = next(one for one in scenario.negative_controls if one.fault == "misconfigure-node")
    place = machine(PLACES[scenario.name])
    real = stand(word_of(control).vary(control, scenario), place)

    verdicts = judge(stand_of(scenario.name).claims, real.evidence, [rule_named(control.rule)])

    assert [v.outcome for v in verdicts if v.subject == control.target] == [Outcome.FAILED]
