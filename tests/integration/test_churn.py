"""Churn on the real kernel: a clean busy machine stays clean, and every planted fault is found and attributed.

``PINPROOF_SOAK=1`` makes each run 15 minutes long, 30 both; ``PINPROOF_SEED`` repeats one.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.churn.windows import ChurnReport, churn
from tests.integration.apply_support import traces
from tests.seeds import SEED, SOAK

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("two_cpus")]

SECONDS = 900.0 if SOAK else 8.0
UNDECIDED = 0.02
"""Of the windows of a clean run, on a machine that nothing else uses."""


def summary(report: ChurnReport) -> str:
    """Print what a run came to; return it for the message of an assertion."""
    kinds = Counter(re.sub(r"[0-9][0-9.,]*", "N", reason) for reason in report.undecided)
    counts = (
        f"churn, seed {report.seed}: {report.windows} windows, {sum(report.operations.values())} operations, "
        f"{len(report.faults)} faults planted, {sum(not fault.found for fault in report.faults)} missed, "
        f"{len(report.false_alarms)} false alarms, {len(report.mismatches)} mismatches, "
        f"{len(report.undecided)} windows undecided"
    )
    reasons = [f"  {count} x {text[text.index(': ') + 2 :]}" for text, count in kinds.most_common(20)]
    said = "\n".join([counts, *reasons])
    print(said)
    return said


def assert_kept(report: ChurnReport) -> None:
    """Nothing fails without a reason, the kernel always has what the model says, containers were really judged."""
    assert report.false_alarms == (), f"seed {report.seed}"
    assert report.mismatches == (), f"seed {report.seed}"
    assert report.windows >= 3
    assert sum(report.operations.values()) >= report.windows
    assert report.outcomes.get("cpuset-containment passed", 0) > 0
    assert {"claim-added", "claim-removed"} <= {what for what, _ in report.transitions_ms}
    assert all(length_ms >= 0 for _, length_ms in report.transitions_ms)


@pytest.mark.skipif(not SOAK, reason="a clean run is 15 minutes: PINPROOF_SOAK=1 (make soak)")
def test_a_clean_busy_machine_stays_clean() -> None:
    """Nothing is planted, and nothing fails."""
    report = churn(duration_s=SECONDS, seed=SEED, run_id="churn-clean")
    said = summary(report)

    assert len(report.undecided) <= UNDECIDED * report.windows, said
    assert_kept(report)
    assert traces("churn-clean") == []


def test_every_planted_fault_is_found_and_attributed() -> None:
    """In each window one fault: its rules say failed about its target, and nothing that it does not explain is."""
    report = churn(duration_s=SECONDS, seed=SEED, run_id="churn-faults", faults=True)
    summary(report)

    missed = [fault for fault in report.faults if not fault.found]
    assert report.faults, f"seed {report.seed}: nothing could be planted"
    assert missed == [], f"seed {report.seed}"
    assert_kept(report)
    assert traces("churn-faults") == []
