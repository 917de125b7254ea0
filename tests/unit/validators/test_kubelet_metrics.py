"""Rule layers-agree about the kubelet's own metrics on a node that is followed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_set, cpus, evidence, one_owner
from toolkit.model.evidence.following import ALLOCATION_ERRORS, Following, Gauges
from toolkit.model.picture import Picture
from validators.layers import metrics
from validators.rules import layers_agree

COUNT, POOL, PER_NODE = (
    f"kubelet_cpu_manager_{name}"
    for name in (
        "exclusive_cpu_allocation_count",
        "shared_pool_size_millicores",
        'allocation_per_numa{numa_node="0"}',
    )
)


def read(first_s: float, last_s: float, count: float = 2, **changes: Any) -> Gauges:
    """Gauges that were read between two seconds; CPUs 2-3 are assigned, 1 is shared."""
    values = changes.pop("only", {COUNT: count, POOL: 1000.0} | changes.pop("values", {}))
    found = {"values": values, "assigned": cpus("2-3"), "shared": cpus("1"), **changes}
    return Gauges(since_ns=round(first_s * SECOND), until_ns=round(last_s * SECOND), **found)


def judged(*gauges: Gauges) -> tuple[str, str]:
    found = evidence(following=Following(source="kubelet"), gauges=gauges)
    verdicts = [row for row in layers_agree.RULE.check(claim_set(), found) if row.subject == "kubelet metrics"]
    assert len(verdicts) == (1 if gauges else 0)
    return (verdicts[0].outcome.value, verdicts[0].reason) if verdicts else ("", "")


def errors(count: float) -> dict[str, float]:
    """Failed allocations of CPUs by pods' budgets."""
    return {f'{ALLOCATION_ERRORS}{{resource_name="cpu",source="pod"}}': count}


def test_failed_allocations_are_counted_and_hide_nothing() -> None:
    """Three in the window, one of them after a restart of the kubelet. A gauge that stays wrong meanwhile is wrong for
    long enough, though no value stays the same; one that is wrong in another way each time is not.
    """
    counted = [read(second, second, values=errors(count)) for second, count in ((1, 7.0), (3, 9.0), (5, 0.0), (7, 1.0))]
    outcome, reason = judged(*counted)
    assert outcome == "passed"
    assert reason.endswith("agree with checkpoint; 3 allocations of the resource managers failed in the window")
    assert judged(*(read(second, second, 6, values=errors(second)) for second in (1, 3, 5)))[0] == "failed"
    changing = [read(second, second, 6 + second, values=errors(second)) for second in (1, 3, 5)]
    assert judged(*changing, read(7, 9))[0] == "passed"


@pytest.mark.parametrize(
    ("gauges", "outcome", "words"),
    [
        ([], "", ""),
        ([read(1, 9)], "passed", "exclusive_cpu_allocation_count and shared_pool_size_millicores agree"),
        ([read(1, 9, only={COUNT: 2.0})], "passed", "exclusive_cpu_allocation_count agrees with"),
        ([read(1, 9, only={"kubelet_other": 1.0})], "skipped", "this kubelet has no such gauge"),
        ([read(1, 9, only={})], "skipped", "this kubelet has no such gauge"),
        ([read(1, 9, only={POOL: 1.0}, shared=None)], "skipped", "nothing that they could be compared with"),
        ([read(1, 9, 6)], "failed", "differ since 1.0 s: exclusive_cpu_allocation_count is 6, assigned are 2 CPUs"),
        ([read(1, 9, values={POOL: 0.0})], "failed", "shared_pool_size_millicores is 0, the shared pool has 1000"),
        ([read(-9, 1, 6), read(5, 9)], "failed", "exclusive_cpu_allocation_count"),
        ([read(1, 1, 6), read(5, 9)], "passed", ""),
        ([read(1, 1, 3), read(5, 5, 4, assigned=cpus("1-3"), shared=None), read(9, 9)], "failed", "differ since 1.0 s"),
        ([read(1, 1, 6), read(5, 5, 7), read(9, 9)], "passed", ""),
        ([read(1, 1, 6), read(5, 5, values={POOL: 0.0}), read(9, 9)], "passed", ""),
        ([read(1, 5), read(9, 9, 6)], "undecided", "between the two readings"),
        ([read(1, 5), read(9, 9, problem="refused", values={})], "undecided", "could not be read: refused"),
        ([read(1, 9, 6, assigned=None, shared=None)], "skipped", "nothing that they could be compared with"),
        ([read(1, 9, 2, shared=None, values={POOL: 0.0})], "passed", ""),
    ],
    ids=[
        "none",
        "same",
        "one",
        "others",
        "empty",
        "incomparable",
        "count",
        "pool",
        "before",
        "moment",
        "one too many",
        "other differences",
        "another gauge",
        "last",
        "unread",
        "silent",
        "unreserved",
    ],
)
def test_what_lasts_is_a_finding(gauges: list[Gauges], outcome: str, words: str) -> None:
    """One reading may fall between two writes of the kubelet; what was not read passes nothing."""
    found, reason = judged(*gauges)
    assert found == outcome
    assert words in reason


@pytest.mark.parametrize(
    ("values", "outcome", "reason"),
    [
        ({COUNT: 2.0}, "passed", "exclusive_cpu_allocation_count agrees with checkpoint"),
        ({"kubelet_cpu_manager_pinning_requests_total": 1.0}, "skipped", "this kubelet has no such gauge"),
        ({POOL: 1000.0}, "skipped", "there is nothing that they could be compared with"),
    ],
)
def test_a_capture_without_the_gauges_proves_nothing(values: dict[str, float], outcome: str, reason: str) -> None:
    """Other metrics of the manager are no gauge of its CPUs; without reserved CPUs the pool's size is not known."""
    (verdict,) = metrics.check("layers-agree", evidence(picture=Picture(metrics=values), state_files=(one_owner(),)))
    assert (verdict.outcome.value, verdict.reason) == (outcome, reason)
