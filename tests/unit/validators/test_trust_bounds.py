"""How much of a count may be missing, and which verdicts a doubt is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import CLEAN, POSITIVE, coverage
from tests.unit.validators.trust_builder import CLAIMS, by_key, health, healthy
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.verdict import Outcome
from validators.registry import judge
from validators.witness import Witness


@pytest.mark.parametrize(
    ("planted", "seen", "outcome"),
    [(500, 475, "passed"), (500, 474, "undecided"), (20, 17, "passed"), (20, 16, "undecided"), (2000, 1900, "passed")],
)
def test_how_many_planted_escapes_may_be_missing(planted: int, seen: int, outcome: str) -> None:
    """One in twenty, or three: the two counts are some milliseconds apart."""
    canary = replace(POSITIVE, planted_switches=planted, out_of_set_switches=seen)

    assert health(canaries=(canary, CLEAN)).outcome.value == outcome


@pytest.mark.parametrize(("judged", "outcome"), [(500_000, "passed"), (499_000, "undecided")])
def test_a_count_that_may_be_off_by_more_than_half_is_no_witness(judged: int, outcome: str) -> None:
    """However far the reads were apart: the other half must be there."""
    counts = coverage(switches_judged=judged, switches_kernel=1_000_000, switches_skew=900_000)

    assert health(coverage=replace(counts, positive_control_latency_ms=None)).outcome.value == outcome


def test_what_was_skipped_is_weakened_by_nothing() -> None:
    """No promise, no evidence that it would rest on."""
    spot = BlindSpot(text="blind", witnesses=tuple(Witness))
    found = judge(CLAIMS, healthy(coverage=coverage(blindness=(spot,))))

    assert {one.weakened_by for one in found if one.outcome is Outcome.SKIPPED} == {()}
    assert {one.weakened_by for one in found if one.outcome is not Outcome.SKIPPED} == {("blind",)}


@pytest.mark.parametrize("name", ["node", "cpu 2", "cpu_manager_state"])
def test_a_claim_may_be_called_as_the_node_is(name: str) -> None:
    """A verdict about the node rests on the evidence of every claim, whatever one of them is called."""
    db, web = CLAIMS.claims
    claims = replace(CLAIMS, claims=(replace(db, name=name), web), noise_budget_ns_per_s=1_000_000)
    renamed = {
        rows: tuple(replace(row, claim=name) if row.claim == "db" else row for row in getattr(healthy(), rows))
        for rows in ("cpu_use", "bandwidth", "thread_masks", "usage_bins")
    }
    spot = BlindSpot(text="web was not seen", witnesses=(Witness.SWITCHES,), claim="web")
    whole = healthy(irq_use=(), **renamed)
    found = replace(whole, coverage=replace(whole.coverage, blindness=(spot,)))
    node = (("reserved-cpus", "node"), ("noise", "cpu 2"))
    assert {by_key(judge(claims, whole))[key] for key in node} == {Outcome.PASSED}
    seen = by_key(judge(claims, found))

    assert {seen[key] for key in node} == {Outcome.UNDECIDED}
