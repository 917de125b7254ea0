"""A still picture has no doubts of a window; evidence of a window does not lose its own by calling itself a picture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.evidence import Coverage, Evidence
from toolkit.model.picture import Picture
from toolkit.model.verdict import Outcome
from toolkit.report.result import make_result
from toolkit.report.summary import summary
from validators.credibility.trust import doubts, is_still
from validators.registry import judge, rule_named

LOST = replace(evidence(), coverage=replace(evidence().coverage, lost_events=5))
PICTURE = Picture(runtime_read=True, pods_read=True)


def _still() -> Evidence:
    return Evidence(
        started_at="2026-11-23T00:00:00+00:00",
        start_monotonic_ns=0,
        duration_ns=0,
        environment=evidence().environment,
        coverage=Coverage(),
        picture=PICTURE,
    )


def test_a_picture_of_files_is_still() -> None:
    """Nothing was observed for a while, so nothing of it can be missing; the summary says what it is."""
    still = _still()

    assert is_still(still)
    assert doubts(claim_set(), still) == ()
    assert "one reading of the node's files" in summary(make_result(still, (), unknown=None))


@pytest.mark.parametrize("name", ["cpu_use", "bandwidth", "usage_bins", "canaries"])
def test_what_needs_a_window_is_no_picture(name: str) -> None:
    """Rows of a ledger, counters, slots and controls are of a time."""
    still = replace(_still(), **{name: getattr(evidence(), name)})

    assert not is_still(still)


@pytest.mark.parametrize(
    "coverage",
    [
        Coverage(switches_judged=1),
        Coverage(switches_kernel=1),
        Coverage(lost_events=1),
        Coverage(blindness=(BlindSpot(text="blind"),)),
    ],
)
def test_what_was_not_seen_is_of_a_window(coverage: Coverage) -> None:
    """One reading has no counts, no losses and no blind spots."""
    assert not is_still(replace(_still(), coverage=coverage))


def test_the_word_alone_takes_no_doubt_away() -> None:
    """Lost events make what passed undecided, whatever the evidence calls itself."""
    called = replace(LOST, picture=PICTURE)
    rule = (rule_named("cpuset-containment"),)

    assert not is_still(called)
    assert {one.outcome for one in judge(claim_set(), evidence(), rule)} == {Outcome.PASSED}
    for lossy in (LOST, called, replace(evidence(), picture=PICTURE), replace(called, duration_ns=0)):
        assert {one.outcome for one in judge(claim_set(), lossy, rule)} == {Outcome.UNDECIDED}
