"""How long the windows of the catalogue have to be: what the rules need to pass what is claimed, and no longer."""

from __future__ import annotations

import pytest

from tests.lab.harness.catalogue import WINDOW_S, dealt, machine, scenarios
from tests.unit.catalogue.stand import stand
from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web
from toolkit.faults.fault import AT_ONCE_S
from toolkit.faults.registry import word_of
from validators.registry import needed_s, rule_named
from validators.rule import FILES_S, SWITCHES_S
from validators.rules import quota_throttling, weight_share

PLACES = {name: place for place, names in dealt().items() for name in names}
FROM_FILES = ("affinity-mask", "applied", "checkpoint", "device-numa", "hugepages", "layers-agree", "mems-containment")
"""Rules that read what a fault has written."""
QUOTA_FILE = ("quota-free", "quota-throttling")
"""Rules that read the quota in force beside the counters."""


@pytest.mark.parametrize("name", sorted(PLACES))
def test_no_scenario_needs_more_than_the_lab_gives(name: str) -> None:
    """Nor less than it takes to see what ran where: every scenario claims CPUs."""
    assert SWITCHES_S <= needed_s(stand(scenarios()[name], machine(PLACES[name])).claims) <= WINDOW_S


def test_a_quota_needs_its_periods() -> None:
    """The longest period counts; that there is no quota needs none."""
    short, long = claim_web(period_us=100_000), claim_web(name="slow", period_us=250_000)

    assert needed_s(claim_set(claim_db())) == SWITCHES_S
    assert needed_s(claim_set(short)) == pytest.approx(0.1 * quota_throttling.PERIODS_NEEDED)
    assert needed_s(claim_set(short, long)) == pytest.approx(0.25 * quota_throttling.PERIODS_NEEDED)


def test_competition_needs_its_time() -> None:
    """Only where containers compete."""
    assert needed_s(claim_set(claim_db(shares=1024, contended=False))) == SWITCHES_S
    assert needed_s(claim_set(claim_db(shares=1024, contended=True))) == weight_share.SHARES_S


def test_files_are_read_at_once() -> None:
    """Rules that look at files and masks only need no more than to read them."""
    assert {rule_named(name).needs(claim_set()) for name in FROM_FILES} == {FILES_S}


def test_what_is_watched_for_a_moment_shows_in_files_or_is_waited_for() -> None:
    """A broken promise is watched so briefly only where a file shows it, or a task that uses it is waited for."""
    controls = [control for one in scenarios().values() for control in one.negative_controls]
    brief = [one for one in controls if (word := word_of(one)).watch_s == AT_ONCE_S and word.load is None]

    assert brief
    assert {one.rule for one in brief} <= {*FROM_FILES, *QUOTA_FILE}
