"""A scenario shows an option only if its node decides otherwise without: each is turned round where it is run."""

from __future__ import annotations

from tests.lab.harness.catalogue import dealt, machine, scenarios
from tests.unit.catalogue.flips import changes_nothing, flips
from tests.unit.catalogue.unshown import CONTEXT, UNSHOWN

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


def test_nothing_is_named_twice() -> None:
    """What is context is not to be rewritten."""
    both = {(setting, name) for setting, names in CONTEXT.items() for name in names if name in UNSHOWN.get(setting, ())}
    assert both == set()


def test_the_list_does_not_grow() -> None:
    """Scenarios that claim to show what they do not: fewer than this, never more."""
    assert sum(map(len, UNSHOWN.values())) <= 1
