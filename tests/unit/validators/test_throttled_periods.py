"""Which periods were throttled, and by which level: in the words and measures of ``quota-throttling``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, claim_web
from tests.unit.validators.quota_builder import POD, ROOT, levels, used, web
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import BandwidthUse, ThrottledPeriods
from validators.quota.periods import throttled_periods


def throttled(row: BandwidthUse, of: int, *stretches: tuple[int, int, int]) -> BandwidthUse:
    """Return a level that was throttled in these of so many periods."""
    found = tuple(ThrottledPeriods(first=first, last=last, throttled=count) for first, last, count in stretches)
    return replace(row, nr_periods=of, nr_throttled=sum(one.throttled for one in found), throttled_in=found)


OWN = throttled(used(500), 30, (3, 7, 5), (11, 20, 4), (25, 25, 1))


def test_each_level_says_which() -> None:
    """Its own quota, its pod's by what the claims say that the cgroup is, and another by its path."""
    pod = Claim(name="pod", cgroup=POD.cgroup, kind=SubjectKind.POD)
    found = (OWN, throttled(POD, 30, (1, 12, 12)), throttled(ROOT, 30, (2, 9, 1)))

    own = "10 of 30 by its own quota (all of 3-7, 4 of 11-20, 25)"
    assert throttled_periods(found[:1], claim_set()) == f"throttled in periods {own}"
    assert throttled_periods(found, claim_set(claim_web(), pod)) == (
        f"throttled in periods {own}, 12 of 30 by its pod's quota (all of 1-12) and "
        "1 of 30 by the quota of /kubepods (1 of 2-9)"
    )


@pytest.mark.parametrize("row", [used(500), replace(OWN, throttled_in=())])
def test_nothing_is_said_of_what_is_not_known(row: BandwidthUse) -> None:
    """Runs from before it was kept, and a level that was never throttled."""
    assert throttled_periods((row,), claim_set()) == ""


def test_many_stretches_are_counted() -> None:
    """Four are named."""
    row = throttled(used(500), 99, *((at, at, 1) for at in range(1, 20, 3)))

    assert throttled_periods((row,), claim_set()).endswith("7 of 99 by its own quota (1, 4, 7, 10 and 3 more)")


def test_the_rule_says_it() -> None:
    """In its reason, whatever comes of it, and as a measure."""
    verdict = web(levels(OWN))

    assert "; throttled in periods 10 of 30 by its own quota (all of 3-7" in verdict.reason
    assert verdict.measures["throttled_periods"] in verdict.reason
