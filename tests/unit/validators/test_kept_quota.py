"""Quotas of a kubelet whose version is not known: what one before v1.33 leaves to owners of CPUs is a doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import bandwidth, claim_db, claim_set, db_files, evidence
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import BandwidthUse
from toolkit.model.verdict import Outcome, Verdict
from validators.quota.kept_quota import UNKNOWN
from validators.rules import applied, quota_free, quota_throttling

DB = claim_db(kept_quota_us=200_000, quota_us=-1)
POD = Claim(name="a/(pod)", cgroup="/kubepods/poda", pod="a", kind=SubjectKind.POD, quota_us=-1, kept_quota_us=250_000)
HELD = {"nr_periods": 100, "nr_throttled": 3, "throttled_ns": 5_000_000}


def rows(own: int, pod: int, root: int = -1, **more: int) -> tuple[BandwidthUse, ...]:
    """The levels of ``db`` with these quotas. :param more: of the first."""
    places = (("/kubepods/poda/db", own), ("/kubepods/poda", pod), ("/kubepods", root))
    found = [bandwidth("db", place, level, quota_us=quota_us) for level, (place, quota_us) in enumerate(places)]
    return (replace(found[0], **more), *found[1:])  # type: ignore[arg-type]


def free(found: tuple[BandwidthUse, ...], claim: Claim = DB, *others: Claim) -> Verdict:
    """``quota-free`` of ``db``."""
    return quota_free.RULE(claim_set(claim, *others), evidence(bandwidth=found))[0]


@pytest.mark.parametrize(
    ("own", "pod", "root", "outcome"),
    [
        (200_000, 250_000, -1, "undecided"),
        (200_000, -1, -1, "undecided"),
        (-1, 250_000, -1, "undecided"),
        (-1, -1, -1, "passed"),
        (100_000, 250_000, -1, "failed"),
        (200_000, 100_000, -1, "failed"),
        (200_000, 250_000, 250_000, "failed"),
    ],
)
def test_the_quota_of_an_older_kubelet_is_a_doubt(own: int, pod: int, root: int, outcome: str) -> None:
    """That of its limit, and of its pod the sum; any other one fails, and so does one of the cgroup of all pods."""
    for others in ((), (POD,)):
        verdict = free(rows(own, pod, root), DB, *others)
        assert verdict.outcome.value == outcome
        assert (verdict.reason == UNKNOWN) == (outcome == "undecided")


def test_the_sum_of_a_pod_is_known_where_its_requests_are() -> None:
    """A larger one than its containers' limits is no kubelet's."""
    assert free(rows(200_000, 300_000), DB, POD).outcome is Outcome.FAILED
    assert free(rows(200_000, 300_000), DB).outcome is Outcome.UNDECIDED


def test_such_a_quota_throttles() -> None:
    """That it did is the doubt's; without one, or where the version is known, it is a failure."""
    assert free(rows(200_000, 250_000, **HELD)).reason == UNKNOWN
    assert free(rows(-1, -1, **HELD)).outcome is Outcome.FAILED
    assert free(rows(200_000, 250_000), claim_db(quota_us=-1)).outcome is Outcome.FAILED


@pytest.mark.parametrize(("quota_us", "outcome"), [(200_000, "undecided"), (-1, "passed"), (100_000, "failed")])
def test_control_files_with_such_a_quota_are_undecided(quota_us: int, outcome: str) -> None:
    """``applied``: before, in between and after."""
    files = (db_files(quota_us=quota_us),)
    found = evidence(files_before=files, files_after=files, files_during=(db_files(quota_us=quota_us, at_ns=5),))
    verdict = applied.RULE(claim_set(DB), found)[0]
    assert verdict.outcome.value == outcome
    assert (verdict.reason == UNKNOWN) == (outcome == "undecided")


def test_usage_below_such_a_quota_is_not_judged() -> None:
    """Whether there is a promise to hold it is not known."""
    verdict = quota_throttling.RULE(claim_set(DB), evidence(bandwidth=rows(200_000, 250_000)))[0]
    assert (verdict.outcome, verdict.reason) == (Outcome.UNDECIDED, UNKNOWN)
