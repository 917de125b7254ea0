"""Churn on the real kernel: a clean busy machine stays clean, and every planted fault is found and attributed.

``PINPROOF_SOAK=1`` makes each run 30 minutes long; ``PINPROOF_SEED`` repeats one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.apply_support import traces
from tests.seeds import SEED, SOAK
from toolkit.model.cpuset import CpuSet
from toolkit.session.churn import churn

pytestmark = pytest.mark.integration

ONLINE = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
SECONDS = 1800.0 if SOAK else 12.0


@pytest.fixture(autouse=True)
def _two_cpus() -> None:
    if len(ONLINE) < 2:
        pytest.skip("churn needs a CPU to own and one to share")


def test_a_clean_busy_machine_stays_clean() -> None:
    """No rule says failed, the kernel always has what the model says, and containers were really judged."""
    report = churn(duration_s=SECONDS, seed=SEED, run_id="churn-clean")

    assert report.false_alarms == (), f"seed {report.seed}"
    assert report.mismatches == (), f"seed {report.seed}"
    assert report.windows >= 3
    assert sum(report.operations.values()) >= report.windows
    assert report.outcomes.get("cpuset-containment passed", 0) > 0
    assert {"claim-added", "claim-removed"} <= {what for what, _ in report.transitions_ms}
    assert all(length_ms >= 0 for _, length_ms in report.transitions_ms)
    assert traces("churn-clean") == []


def test_every_planted_fault_is_found_and_attributed() -> None:
    """In each window one fault: its rules say failed about its target, and nothing that it does not explain is."""
    report = churn(duration_s=SECONDS, seed=SEED, run_id="churn-faults", faults=True)

    missed = [fault for fault in report.faults if not fault.found]
    assert report.faults, f"seed {report.seed}: nothing could be planted"
    assert missed == [], f"seed {report.seed}"
    assert report.false_alarms == (), f"seed {report.seed}"
    assert report.mismatches == (), f"seed {report.seed}"
    assert traces("churn-faults") == []
