"""``quota-free``: an exclusive container has no quota at any level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    WINDOW_NS,
    bandwidth,
    claim_db,
    claim_set,
    coverage,
    evidence,
    files,
)
from toolkit.model.claims import Claim, Isolation
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import quota_free


def free(claim: Claim, *others: Claim, **changes: Any) -> Verdict:
    """``quota-free`` for ``db`` with one level changed: ``own``, ``pod`` or ``root``."""
    rows = [
        bandwidth("db", cgroup, level, **changes.get(name, {}))
        for level, (name, cgroup) in enumerate(
            [("own", "/kubepods/poda/db"), ("pod", "/kubepods/poda"), ("root", "/kubepods")]
        )
        if changes.get(name, {}) is not None
    ]
    return quota_free.RULE(claim_set(claim, *others), evidence(bandwidth=tuple(rows)))[0]


@pytest.mark.parametrize("level", ["own", "pod", "root"])
@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"quota_us": 50_000}, "failed"),
        ({"nr_periods": 9, "nr_throttled": 1}, "failed"),
        ({"quota_us": None}, "undecided"),
        ({"nr_throttled": None}, "undecided"),
        (None, "undecided"),
    ],
)
def test_exclusive_containers_are_free_of_quota_at_every_level(level: str, change: Any, outcome: str) -> None:
    """The negative control: a quota or a throttled period at any level fails; a level not read is undecided."""
    assert free(claim_db(), **{level: change}).outcome.value == outcome


def test_an_exclusive_container_without_quota_passes() -> None:
    """No quota and no throttling on three levels; also where the claims file says nothing about quota."""
    assert free(claim_db()).outcome is Outcome.PASSED
    assert free(claim_db(quota_us=None)).outcome is Outcome.PASSED


def test_a_pod_level_quota_is_healthy() -> None:
    """A pod whose other containers share the pod's pool keeps its quota; throttling it still fails."""
    side = claim_db(name="side", cgroup="/kubepods/poda/side", isolation=Isolation.POD)

    assert free(claim_db(), side, pod={"quota_us": 400_000}).outcome is Outcome.PASSED
    assert (
        free(claim_db(), side, pod={"quota_us": 400_000, "nr_periods": 9, "nr_throttled": 1}).outcome is Outcome.FAILED
    )
    assert free(claim_db(), side, own={"quota_us": 400_000}).outcome is Outcome.FAILED


def test_a_pods_quota_is_the_pods_alone() -> None:
    """Pod-level resources excuse a quota of the pod's cgroup, not one of the quality-of-service class above it."""
    side = claim_db(name="side", cgroup="/kubepods/poda/side", isolation=Isolation.POD)

    assert free(claim_db(), side, root={"quota_us": 400_000}).outcome is Outcome.FAILED


def changed(cgroup: str, *readings: tuple[int, int]) -> Evidence:
    """A cgroup without quota when the window opens, then with each of these quotas from this second on."""
    first = files(cgroup, quota_us=-1, period_us=100_000)
    rows = tuple(replace(first, at_ns=at_s * SECOND, quota_us=quota_us) for at_s, quota_us in readings)
    last = replace(first, at_ns=WINDOW_NS, quota_us=readings[-1][1])
    found = evidence()
    return evidence(
        files_before=(*found.files_before, first),
        files_after=(*found.files_after, last),
        files_during=rows,
        coverage=coverage(file_readings=9, file_gap_ns=SECOND),
    )


@pytest.mark.parametrize("cgroup", ["/kubepods/poda", "/kubepods"])
@pytest.mark.parametrize(
    ("readings", "when"),
    [(((2, 200_000),), "as read from 2.0 s to the end"), (((2, 200_000), (8, -1)), "as read from 2.0 s to 8.0 s")],
    ids=["stays", "removed"],
)
def test_an_ancestor_that_was_given_a_quota_fails(
    cgroup: str, readings: tuple[tuple[int, int], ...], when: str
) -> None:
    """A quota that is never met throttles nothing: the control file says it, at each level, also if it was removed."""
    verdict = quota_free.RULE(claim_set(), changed(cgroup, *readings))[0]

    assert verdict.outcome is Outcome.FAILED
    assert verdict.reason == f"{cgroup} had a quota of 200 ms / 100 ms {when}"


def test_an_ancestor_with_a_quota_at_the_end_fails() -> None:
    """Written between the last reading and the end of the window."""
    found = replace(changed("/kubepods/poda", (9, 200_000)), files_during=())

    assert quota_free.RULE(claim_set(), found)[0].outcome is Outcome.FAILED


def test_a_pod_that_may_have_a_quota_may_change_it_if_none_is_stated() -> None:
    """A pod that shares keeps a quota of any size; one whose quota the plan states keeps that one."""
    found = changed("/kubepods/poda", (2, 200_000), (8, -1))
    side = claim_db(name="side", cgroup="/kubepods/poda/side", isolation=Isolation.POD)

    assert quota_free.RULE(claim_set(claim_db(), side), found)[0].outcome is Outcome.PASSED
    assert quota_free.RULE(claim_set(claim_db(pod_quota_us=200_000)), found)[0].outcome is Outcome.PASSED
    assert quota_free.RULE(claim_set(claim_db(pod_quota_us=400_000)), found)[0].outcome is Outcome.FAILED


def test_shared_containers_ancestors_may_be_given_a_quota() -> None:
    """Only the own level of a container that shares its CPUs was promised anything."""
    found = changed("/kubepods/poda", (2, 200_000))

    assert quota_free.RULE(claim_set(claim_db(isolation=Isolation.HOST)), found)[0].outcome is Outcome.PASSED


def test_a_pod_quota_that_the_plan_states_is_healthy() -> None:
    """Container scope: the pod keeps its quota for a container in the node's pool; that value only, no throttling."""
    kept = claim_db(pod_quota_us=200_000)

    assert free(kept, pod={"quota_us": 200_000}).outcome is Outcome.PASSED
    assert free(kept, pod={"quota_us": 100_000}).outcome is Outcome.FAILED
    assert free(kept, root={"quota_us": 200_000}).outcome is Outcome.FAILED
    assert free(kept, pod={"quota_us": 200_000, "nr_periods": 9, "nr_throttled": 1}).outcome is Outcome.FAILED


def test_crun_has_a_cgroup_between_the_pod_and_its_limits() -> None:
    """The pod may have the quota that the plan states, the scope between them none."""
    cgroup = "/kubepods/poda/db.scope/container"
    kept = claim_db(cgroup=cgroup, pod_quota_us=200_000)
    places = [cgroup, "/kubepods/poda/db.scope", "/kubepods/poda", "/kubepods"]
    for limited, outcome in ((2, Outcome.PASSED), (1, Outcome.FAILED), (3, Outcome.FAILED)):
        rows = (
            bandwidth("db", place, level, **({"quota_us": 200_000} if level == limited else {}))
            for level, place in enumerate(places)
        )
        assert quota_free.RULE(claim_set(kept), evidence(bandwidth=tuple(rows)))[0].outcome is outcome


def test_shared_containers_may_inherit_a_quota() -> None:
    """A container that was promised no quota and shares CPUs is judged at its own level only."""
    shared = claim_db(isolation=Isolation.HOST)

    assert free(shared, pod={"quota_us": 50_000, "nr_periods": 9, "nr_throttled": 9}).outcome is Outcome.PASSED
    assert free(shared, own={"quota_us": 50_000}).outcome is Outcome.FAILED


def test_quota_free_skips_what_was_not_promised() -> None:
    """A promised quota, or a shared container without a word about it, is not judged."""
    assert free(claim_db(quota_us=200_000)).outcome is Outcome.SKIPPED
    assert free(claim_db(isolation=Isolation.HOST, quota_us=None)).outcome is Outcome.SKIPPED


def test_switch_loss_does_not_matter_to_quota_free() -> None:
    """cpu.stat does not become doubtful because a ring buffer was full."""
    found = evidence(coverage=coverage(lost_events=1))

    assert quota_free.RULE(claim_set(), found)[0].outcome is Outcome.PASSED
    assert found.duration_ns == WINDOW_NS


@pytest.mark.parametrize(
    ("stood_ms", "throttled_ms", "outcome"),
    [
        (25, 48, "undecided"),
        (0, 48, "failed"),
        (25, 400, "failed"),
        (25, 0, "undecided"),
        (25, 152, "undecided"),  # 25 ms on each of 4 CPUs, made up for at 190 ms / 100 ms, and a period
        (25, 153, "failed"),
    ],
)
@pytest.mark.parametrize("seen_as", ["steal_ns", "standstill_by_cpu_ns"])
def test_throttling_by_the_pods_own_quota_may_be_a_stop_of_the_machine(
    stood_ms: int, throttled_ms: int, outcome: str, seen_as: str
) -> None:
    """Seen in an emulated machine: what runs when it stands still has used that time up, by the kernel's account."""
    pod = bandwidth(
        "db",
        "/kubepods/poda",
        1,
        quota_us=190_000,
        period_us=100_000,
        nr_periods=20,
        nr_throttled=2,
        throttled_ns=throttled_ms * 1_000_000,
    )
    rows = (bandwidth("db", "/kubepods/poda/db", 0), pod, bandwidth("db", "/kubepods", 2))
    stood: Any = stood_ms * 1_000_000
    found = evidence(bandwidth=rows, **{seen_as: stood if seen_as == "steal_ns" else {0: stood, 1: 0}})
    claims = claim_set(claim_db(pod_quota_us=190_000))
    assert quota_free.RULE(claims, found)[0].outcome.value == outcome
    # A quota that its pod was not promised explains nothing.
    assert quota_free.RULE(claim_set(claim_db()), found)[0].outcome is Outcome.FAILED
