"""A scenario shows an option, a reservation, a departure or a resize only if its node decides otherwise without.

Each is turned round on the machine where the scenario is run.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lab.harness.catalogue import dealt, machine, scenarios
from tests.unit.catalogue.flips import changes_nothing, flips
from tests.unit.catalogue.stand import stand
from tests.unit.catalogue.turns import PROMISES, only_asked_for, owned, turned
from tests.unit.catalogue.unshown import CONTEXT, UNSHOWN
from toolkit.session.planning.fitting import unstartable
from toolkit.session.planning.planned import plan_all

PLACES = {name: place for place, names in dealt().items() for name in names}


def test_every_setting_matters_but_those_that_are_named() -> None:
    """What changes nothing is named with the reason, and nothing is named that matters.

    A scenario that is rewritten so that it shows its option is taken off the list: this test fails until that is done.
    """
    found = {
        (setting, name)
        for name, scenario in scenarios().items()
        for setting, other in flips(scenario)
        if changes_nothing(scenario, other, machine(PLACES[name]))
    }
    found |= {
        (what, name)
        for name, scenario in scenarios().items()
        for what, same in turned(scenario, machine(PLACES[name]))
        if same
    }
    named = {(setting, name) for part in (CONTEXT, UNSHOWN) for setting, names in part.items() for name in names}

    assert found - named == set()
    assert named - found == set()


def test_no_kubelet_starts_on_sixteen_nodes_unless_it_is_told_to() -> None:
    """What ``numa-max-nodes`` shows on its machine: without the option there is no node to plan for."""
    scenario, place = scenarios()["numa-max-nodes"], machine(PLACES["numa-max-nodes"])
    without = dict(flips(scenario))["max-allowable-numa-nodes=16"]

    assert len(place.numa) == 16
    assert unstartable(scenario, place) is None
    assert "unsupported on machines with more than 8 NUMA Nodes" in (unstartable(without, place) or "")


def test_a_reservation_of_cpus_matters_wherever_one_has_an_owner() -> None:
    """The reason that is given for the others, of each of them: no CPU is owned, and the reserved ones are shared."""
    for setting in ("reservedSystemCPUs=0", "kubeReserved.cpu"):
        for name in CONTEXT[setting]:
            scenario, place = scenarios()[name], machine(PLACES[name])
            assert not owned(scenario, place), name
            assert not plan_all(scenario, place).plan.strict_reservation, name


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("weights", "part of contended CPU time"),
        ("state-files", "state files"),
        ("restart", "time of a change"),
    ],
)
def test_a_promise_that_is_asked_for_without_being_judged_is_noticed(name: str, promise: str) -> None:
    """Turning a field round says something: it does where the field is, and not where it makes no difference."""
    scenario, place = scenarios()[name], machine(PLACES[name])
    fields = {field: without for field, (without, word) in PROMISES.items() if word == promise}
    asked, without = stand(scenario, place), stand(replace(scenario, **fields), place)  # type: ignore[arg-type]

    assert only_asked_for(promise, asked, without)
    assert not only_asked_for(promise, asked, asked)
    assert not only_asked_for(promise, without, without)


def test_nothing_is_named_twice() -> None:
    """What is context is not to be rewritten."""
    both = {(setting, name) for setting, names in CONTEXT.items() for name in names if name in UNSHOWN.get(setting, ())}
    assert both == set()


def test_every_scenario_shows_what_it_claims_to() -> None:
    """None is left that claims to show a setting on which nothing depends where it is run."""
    assert UNSHOWN == {}
