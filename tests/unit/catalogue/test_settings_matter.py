"""A scenario shows an option only if its node decides otherwise without: each is turned round where it is run."""

from __future__ import annotations

from tests.lab.harness.catalogue import dealt, machine, scenarios
from tests.unit.catalogue.flips import changes_nothing, flips
from tests.unit.catalogue.unshown import CONTEXT, UNSHOWN
from toolkit.session.fitting import unstartable

PLACES = {name: place for place, names in dealt().items() for name in names}


def test_every_setting_matters_but_those_that_are_named() -> None:
    """An option, gate or policy that changes nothing is named with the reason, and nothing is named that matters.

    Who rewrites a scenario so that it shows its option takes it off the list: this test fails until that is done.
    """
    found = {
        (setting, name)
        for name, scenario in scenarios().items()
        for setting, other in flips(scenario)
        if changes_nothing(scenario, other, machine(PLACES[name]))
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


def test_nothing_is_named_twice() -> None:
    """What is context is not to be rewritten."""
    both = {(setting, name) for setting, names in CONTEXT.items() for name in names if name in UNSHOWN.get(setting, ())}
    assert both == set()


def test_every_scenario_shows_what_it_claims_to() -> None:
    """None is left that claims to show a setting on which nothing depends where it is run."""
    assert UNSHOWN == {}
