"""The kernel's pressure stall information beside the waits that the ledger counted: what their definitions allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, WINDOW_NS, bandwidth, claim_set, claim_web, cpus, evidence
from toolkit.model.claims import Claim
from toolkit.model.evidence import CpuPressure, Delay, Evidence
from toolkit.model.verdict import Outcome
from validators.credibility.contradictions import contradictions
from validators.credibility.trust import doubts
from validators.queries.delay import waited
from validators.rules import evidence_health, weight_share
from validators.witness import Witness

MS = 1_000_000
ONE = claim_web(cpus=cpus("1"))


def seen(
    some_ms: float, wait_ms: float, longest_ms: float = 5, *, claim: Claim = ONE, cpu: int = 1, **changes: object
) -> tuple[Claim, Evidence]:
    """A claim whose tasks waited so long by both."""
    row = Delay(
        claim=claim.name,
        cpu=cpu,
        wait_ns=int(wait_ms * MS),
        longest_ns=int(longest_ms * MS),
        longest_at_ns=5 * SECOND,
    )
    pressure = CpuPressure(claim=claim.name, window_ns=WINDOW_NS, some_us=int(some_ms * 1000), full_us=0)
    return claim, replace(evidence(**changes), delays=(row,), pressure=(pressure,))


def problem(found: tuple[Claim, Evidence]) -> str:
    """Return what the two do not explain."""
    claim, of_window = found
    said = waited(claim, claim_set(claim), of_window)
    assert said is not None
    assert said.pressed is not None
    return said.pressed.problem


@pytest.mark.parametrize(
    ("some_ms", "wait_ms", "longest_ms", "said"),
    [
        (38, 38, 9, ""),
        (38, 300, 9, ""),  # eight tasks that wait at one time are one
        (150, 38, 9, ""),  # one that goes on when the window ends
        (400, 38, 9, "38.0 ms by the waits that have ended: one goes on, or was not seen"),
        (0, 900, 100, ""),  # a jiffy of each period may be lost
        (100, 900, 800, "768.0 ms or more by single waits that the ledger counted"),
        (10_050, 38, 9, "38.0 ms by the waits that have ended: one goes on, or was not seen"),
        (10_400, 11_000, 9, "in a window of 10000.0 ms"),
    ],
)
def test_what_definitions_explain(some_ms: float, wait_ms: float, longest_ms: float, said: str) -> None:
    """A claim on one CPU, with a quota of 100 ms, in ten seconds of a kernel with 250 Hz."""
    found = problem(seen(some_ms, wait_ms, longest_ms))

    assert found.endswith(said)
    assert bool(found) is bool(said)
    assert not said or found.startswith(f"a task of it waited {some_ms:.1f} ms by the kernel's PSI")


def test_of_several_cpus_it_is_a_mean() -> None:
    """A task that waits for I/O on the other CPU halves what one that waits on this one has; the square is safe."""
    two = claim_web(cpus=cpus("0-1"))

    assert problem(seen(400, 900, 800, claim=two)) == ""
    assert problem(seen(0, 9_000, 4_500, claim=two)).endswith(
        "980.5 ms or more by single waits that the ledger counted"
    )


def test_the_period_of_a_quota_is_one_wait() -> None:
    """What is throttled when the window ends has waited for up to a period: here a second."""
    levels = (bandwidth("web", ONE.cgroup, 0, quota_us=10_000, period_us=1_000_000),)

    assert problem(seen(900, 38, bandwidth=levels)) == ""


def test_a_window_that_was_not_whole_is_not_compared() -> None:
    """A claim that came in it; and where nothing counted waits only the window bounds."""
    claim, found = seen(400, 38)
    late = replace(found, pressure=(replace(found.pressure[0], window_ns=5 * SECOND),))
    none = replace(found, delays=(replace(found.delays[0], wait_ns=0),))

    assert problem((claim, late)) == problem((claim, none)) == ""


def test_it_is_a_measure_or_says_why_not() -> None:
    """Beside the ledger's own."""
    claim, found = seen(38, 40)
    unread = replace(found, pressure=(CpuPressure(claim="web", unread="no PSI here"),))
    with_it, without = (waited(claim, claim_set(claim), one) for one in (found, unread))

    assert with_it is not None
    assert without is not None
    assert (with_it.measures()["psi_some_us"], with_it.measures()["psi_full_us"]) == (38_000, 0)
    assert without.measures()["psi"] == "not read: no PSI here"
    assert "psi_some_us" not in without.measures()


def test_a_difference_is_a_doubt_where_a_verdict_rests_on_waits() -> None:
    """Of the rule for weights; of the evidence's health only where a weight is contended."""
    claim, found = seen(400, 38)
    claims = claim_set(claim)
    split = [one for one in doubts(claims, found) if one.witnesses == frozenset({Witness.WAITS})]
    contended = claim_set(replace(claim, weight=100, contended=True))

    assert [one.claim for one in split] == ["web"]
    assert "400.0 ms by the kernel's PSI, 38.0 ms by the waits" in split[0].text
    assert Witness.WAITS in evidence_health.spared(claims)
    assert Witness.WAITS not in evidence_health.spared(contended)
    assert Witness.WAITS in weight_share.RULE.rests_on(contended)


@pytest.mark.parametrize(("some_ms", "outcome"), [(3, Outcome.SKIPPED), (400, Outcome.UNDECIDED)])
def test_nothing_was_divided_needs_both(some_ms: float, outcome: Outcome) -> None:
    """A task that waits for all of the window has no wait that ended."""
    other = claim_web(name="api", cgroup="/kubepods/podc/api", demand_cpus=None)
    asked = replace(claim_web(), cpus=cpus("1"), demand_cpus=None, weight=100, contended=True)
    _, found = seen(some_ms, 3, claim=asked, run_delay_ns={"web": 3 * MS})
    verdict = weight_share.RULE.check(claim_set(asked, other), found)[0]

    assert verdict.outcome is outcome
    assert ("3.0 ms for a CPU by waits that have ended, 400.0 ms by the kernel's PSI" in verdict.reason) is (
        outcome is Outcome.UNDECIDED
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"some_us": -1}, "a counter ran backwards"), ({"some_us": 1, "full_us": 900_000}, "more full than some")],
)
def test_no_kernel_counts_that(changes: dict[str, int], said: str) -> None:
    """Such evidence is false."""
    _, found = seen(38, 40)
    false = replace(found, pressure=(replace(found.pressure[0], **changes),))

    assert contradictions(false) == (f"the pressure of web: {said}",)
