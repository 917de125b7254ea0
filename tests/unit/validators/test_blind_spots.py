"""Every blind spot weakens the rules that rest on what it hides: none of them passes, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.validators.evidence_builder import bandwidth, claim_set, coverage, mask, use
from tests.unit.validators.evidence_strategies import anything, claim_sets
from tests.unit.validators.trust_builder import CLAIMS, by_key, healthy
from toolkit.model.blind_spots import BLINDED_BY, EVERY_WITNESS, BlindSpot, ScanGap, Witness
from toolkit.model.claims import ClaimSet, ExclusivePolicy
from toolkit.model.evidence import Evidence
from toolkit.model.result import make_result
from toolkit.model.verdict import Outcome
from validators.credibility.contradictions import contradictions
from validators.registry import RULES, judge, rule_named

STRICT = replace(CLAIMS, policy=ExclusivePolicy.STRICT_ISOLATION)
BUDGET = replace(CLAIMS, noise_budget_ns_per_s=1_000_000_000)


def blinded(found: Evidence, *spots: BlindSpot) -> Evidence:
    told = replace(found.coverage, blindness=spots, blind_spots=tuple(spot.text for spot in spots))
    return replace(found, coverage=told)


def spot(*witnesses: Witness, **changes: Any) -> BlindSpot:
    return BlindSpot(text="something was not seen", witnesses=witnesses, **changes)


@settings(deadline=None, max_examples=100)
@given(
    st.one_of(claim_sets, st.sampled_from([STRICT, BUDGET])),
    anything(),
    st.lists(st.sampled_from(EVERY_WITNESS), max_size=3),
    st.none() | st.sampled_from(["db", "web", "ghost"]),
)
def test_a_rule_that_rests_on_a_blind_witness_does_not_pass(
    claims: ClaimSet, found: Evidence, witnesses: list[Witness], name: str | None
) -> None:
    """For every rule and every evidence: ``passed`` becomes ``undecided`` with the reason, all else stays as it was."""
    hidden = spot(*witnesses, claim=name)
    before = by_key(judge(claims, found))
    verdicts = judge(claims, blinded(found, hidden))
    known = {claim.name for claim in claims.claims}

    for verdict in verdicts:
        rests = bool(rule_named(verdict.rule).rests_on(claims) & set(witnesses))
        concerns = rests and (name is None or verdict.subject == name or verdict.subject not in known)
        was = before[(verdict.rule, verdict.subject)]
        if was is Outcome.PASSED and concerns:
            assert verdict.outcome is Outcome.UNDECIDED
            assert hidden.text in verdict.reason
        else:
            assert verdict.outcome is was
        assert bool(verdict.weakened_by) == (concerns and was is not Outcome.SKIPPED)


@pytest.mark.parametrize("witness", EVERY_WITNESS)
@pytest.mark.parametrize("claims", [CLAIMS, STRICT, BUDGET], ids=["k8s", "strict", "budget"])
def test_a_result_names_the_rules_that_a_blind_spot_weakens(claims: ClaimSet, witness: Witness) -> None:
    """In ``blindness`` and in the text of ``blind_spots``, and only rules that exist and rest on it."""
    found = blinded(healthy(), spot(witness))
    told = make_result(found, judge(claims, found), unknown=None).coverage
    resting = {rule.id for rule in RULES if witness in rule.rests_on(claims)}

    (named,) = told.blindness
    assert set(named.weakens) <= resting
    assert bool(named.weakens) == bool(resting)
    assert all(rule in told.blind_spots[0] for rule in named.weakens)


def test_what_is_accounted_for_otherwise_weakens_nothing() -> None:
    """A spot without a witness is told, and everything passes."""
    found = blinded(healthy(), spot())
    verdicts = judge(CLAIMS, found)

    assert by_key(verdicts) == by_key(judge(CLAIMS, healthy()))
    assert make_result(found, verdicts, unknown=None).coverage.blind_spots == ("something was not seen",)


def test_plain_texts_of_runs_from_before_weaken_nothing() -> None:
    """They have no witnesses; such a run is judged as it was."""
    old = healthy(coverage=coverage(blind_spots=("CPUs 4-7 carry no sampler",)))
    verdicts = judge(CLAIMS, old)

    assert by_key(verdicts) == by_key(judge(CLAIMS, healthy()))
    assert make_result(old, verdicts, unknown=None).coverage.blind_spots == ("CPUs 4-7 carry no sampler",)


@pytest.mark.parametrize("claims", [CLAIMS, STRICT, BUDGET, claim_set()], ids=["k8s", "strict", "budget", "plain"])
def test_evidence_health_rests_on_what_any_other_rule_rests_on(claims: ClaimSet) -> None:
    """No more: what was not asked for does not leave a run undecided. And no less."""
    others = frozenset().union(*(rule.rests_on(claims) for rule in RULES if rule.id != "evidence-health"))

    assert rule_named("evidence-health").rests_on(claims) == others


def test_every_witness_says_what_blinds_it() -> None:
    """``pinproof explain`` has a text for each; nothing is judged by which task did what."""
    assert set(BLINDED_BY) == set(Witness)
    assert [rule.id for rule in RULES if Witness.ACTIONS in rule.doc.witnesses] == []


def test_the_longest_gap_is_a_measure_of_the_rules_that_rest_on_masks() -> None:
    """A pass says how closely it looked."""
    gap = ScanGap(claim="db", scans=49, longest_ns=254_000_000, at_ns=1_000_000, allowed_ns=704_000_000)
    found = replace(healthy(), coverage=coverage(scan_gaps=(gap,)))
    (db, web) = rule_named("affinity-mask")(CLAIMS, found)

    assert db.outcome is Outcome.PASSED
    assert db.measures["longest_gap_ms"] == 254.0
    assert "longest_gap_ms" not in web.measures


def test_a_wide_mask_is_a_failure_however_blind_the_witness_was() -> None:
    """What was seen stays seen."""
    found = blinded(healthy(thread_masks=(mask("db", "0-3"), mask("web", "0", tid=200))), spot(Witness.MASKS))
    outcomes = by_key(judge(CLAIMS, found))

    assert outcomes[("affinity-mask", "db")] is Outcome.FAILED
    assert outcomes[("affinity-mask", "web")] is Outcome.UNDECIDED
    assert outcomes[("cpuset-containment", "web")] is Outcome.PASSED


def test_stays_outside_are_not_compared_with_ended_intervals() -> None:
    """A task that enters and leaves a claim 200 times in one interval was outside 200 times and switched once."""
    row = use("db", 0, switches=1, run_ns=100_000_000, out_of_set_switches=200, out_of_set_ns=100_000_000)
    found = healthy(cpu_use=(row, *healthy().cpu_use))

    assert contradictions(found) == ()
    assert by_key(judge(CLAIMS, found))[("cpuset-containment", "db")] is Outcome.FAILED
    assert by_key(judge(CLAIMS, found))[("evidence-health", "node")] is not Outcome.FAILED


@pytest.mark.parametrize(("throttled", "stopped_ms", "false"), [(102, 0, False), (103, 0, True), (104, 150, False)])
def test_the_two_counters_of_cpu_stat_are_not_read_at_once(throttled: int, stopped_ms: int, false: bool) -> None:
    """A period may be in one of them only at each end of the window, after a standstill several."""
    level = bandwidth("db", "/x", nr_periods=100, nr_throttled=throttled)
    found = healthy(bandwidth=(level,), standstill_by_cpu_ns={0: stopped_ms * 1_000_000})

    assert any("throttled of" in text for text in contradictions(found)) is false
