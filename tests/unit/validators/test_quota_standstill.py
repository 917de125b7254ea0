"""The rule ``quota-throttling`` where CPUs stood still: what ran there was charged, and nothing could be throttled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, claim_web
from tests.unit.validators.quota_builder import FREE, MS, POD, levels, used, web
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome
from validators.rules import evidence_health


def stood_still(found: Evidence, standstill_ms: dict[int, int]) -> Evidence:
    """Let ``web`` have run on CPUs that stood still."""
    by_cpu = {cpu: length * MS for cpu, length in standstill_ms.items()}
    stood = ((row, by_cpu.get(row.cpu, 0)) for row in found.cpu_use)
    rows = tuple(replace(row, run_ns=max(row.run_ns, ns), standstill_ns=ns) for row, ns in stood)
    return replace(found, cpu_use=rows, standstill_by_cpu_ns=by_cpu)


@pytest.mark.parametrize(
    ("ms", "outcome"),
    [(5076, "passed"), (5077, "undecided"), (5176, "undecided"), (5177, "failed")],  # 5076 ms is the bound
)
def test_nothing_is_throttled_while_a_cpu_stands_still(ms: int, outcome: str) -> None:
    """As much above the bound as it ran on CPUs that stood still proves nothing; one millisecond more does."""
    verdict = web(stood_still(levels(used(ms, nr_periods=100, nr_throttled=90), FREE), {0: 60, 1: 40}))

    assert verdict.outcome.value == outcome, verdict.reason
    assert ("its CPUs stood still for 0.100 s" in verdict.reason) == (outcome == "undecided")


def test_a_pod_overruns_while_a_cpu_stands_still() -> None:
    """What holds for the container holds for its ancestors: undecided up to the time that CPUs stood still."""
    pod = replace(POD, usage_ns=5_600 * MS, nr_throttled=90)
    own = used(4_990, nr_throttled=90)

    assert web(levels(own, pod)).outcome is Outcome.FAILED
    assert web(stood_still(levels(own, pod), {1: 600})).outcome is Outcome.UNDECIDED
    assert web(stood_still(levels(own, pod), {1: 10})).outcome is Outcome.FAILED


def test_a_timer_that_was_late_counts_periods_in_which_nothing_ran() -> None:
    """Its CPU may have stood still without steal: it counts each period that it missed as throttled."""
    found = levels(used(4_000, nr_throttled=100), FREE)

    assert web(found).outcome is Outcome.FAILED
    assert web(stood_still(found, {0: 2_000})).outcome is Outcome.UNDECIDED
    assert web(stood_still(found, {3: 2_000})).outcome is Outcome.UNDECIDED, "what ran there does not matter"


def test_how_long_cpus_stood_still_is_told_of_every_run() -> None:
    """All CPUs together, with the other numbers of the run's health; nothing where it could not be observed."""
    found = levels(used(4_990), FREE)
    (health,) = evidence_health.RULE(claim_set(claim_web()), stood_still(found, {0: 60, 3: 40}))
    (unknown,) = evidence_health.RULE(claim_set(claim_web()), replace(found, standstill_by_cpu_ns=None))

    assert health.measures["standstill_ns"] == 100 * MS
    assert "standstill_ns" not in unknown.measures
