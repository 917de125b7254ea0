"""The rule ``quota-throttling`` where the ledger and the cgroup differ about what was used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.quota_builder import FREE, MS, POD, levels, used, web
from toolkit.model.verdict import Outcome


@pytest.mark.parametrize(
    ("cgroup_ms", "ledger_ms", "outcome", "word"),
    [
        (0, 5000, "undecided", "by the ledger it used 0.5000 CPUs"),  # no task joined the v1 cpuacct
        (10_000, 5000, "undecided", "by the ledger it used 0.5000 CPUs"),  # others did, which are not its tasks
        (0, 10, "failed", "after 0.0000 CPUs"),
        (10_000, 9900, "failed", "allows at most"),
    ],
)
def test_what_one_of_two_witnesses_says_alone_proves_nothing(
    cgroup_ms: int, ledger_ms: int, outcome: str, word: str
) -> None:
    """Throttled in each period, and kept by the ledger: the cgroup that counts CPU time is not that with the quota."""
    verdict = web(levels(used(cgroup_ms, bpf_usage_ns=ledger_ms * MS), FREE))

    assert (verdict.outcome.value, word in verdict.reason) == (outcome, True), verdict.reason


def test_what_is_undecided_hides_no_proof() -> None:
    """The cgroup's own count is contradicted by the ledger; its pod's says by itself that it used too much."""
    pod = replace(POD, usage_ns=9_500 * MS)
    verdict = web(levels(used(10_000, bpf_usage_ns=5000 * MS), pod))

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason.startswith("/kubepods/podb used")
