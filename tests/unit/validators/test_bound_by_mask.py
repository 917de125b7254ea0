"""Claims whose CPUs the threads' masks alone hold, and those whose own cpuset asks for more than they are left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, cpus, db_files, evidence, mask, use
from toolkit.model.claims import Claim, Isolation, SubjectKind
from toolkit.model.evidence import ThreadMask
from toolkit.model.verdict import Offender, Outcome
from validators.rules import affinity_mask, applied, cpuset_containment, mems_containment

BOUND = replace(claim_db(), by_mask=True, isolation=Isolation.HOST, mems=None, quota_us=None)
LEFT = replace(claim_db(), cpus=cpus("2-3"), requested_cpus=cpus("2-7"), mems=cpus("0"), requested_mems=cpus("0-1"))


def containment(claim: Claim, *, outside_ns: int, tids: int = 1, wide: ThreadMask | None = None) -> Outcome:
    row = use("db", 0, out_of_set_switches=tids, out_of_set_ns=outside_ns, out_of_set_longest_ns=outside_ns // tids)
    named = tuple(
        Offender(
            claim="db",
            tid=100 + number,
            comm="x",
            cpu=0,
            first_at_ns=0,
            total_ns=outside_ns // tids,
            longest_ns=outside_ns // tids,
            switches=1,
        )
        for number in range(tids)
    )
    masks = (mask("db", "2-3"),) if wide is None else (mask("db", "2-3"), wide)
    found = evidence(cpu_use=(*evidence().cpu_use, row), offenders=named, thread_masks=masks)
    return cpuset_containment.RULE(claim_set(claim), found)[0].outcome


@pytest.mark.parametrize(
    ("claim", "outside_ns", "tids", "outcome"),
    [
        (BOUND, 2_000_000, 1, "undecided"),
        (BOUND, 75_000_000, 1, "undecided"),
        (BOUND, 75_000_001, 1, "failed"),
        (BOUND, 140_000_000, 2, "undecided"),
        (BOUND, 160_000_000, 2, "failed"),
        (replace(BOUND, by_mask=False), 2_000_000, 1, "failed"),
    ],
)
def test_a_moment_before_it_is_bound(claim: Claim, outside_ns: int, tids: int, outcome: str) -> None:
    """Each task has as long as a joining was met to take; one that a cpuset holds has none."""
    assert containment(claim, outside_ns=outside_ns, tids=tids).value == outcome


def test_one_that_is_not_bound_at_all() -> None:
    """Two readings of a mask that is too wide: it runs little, and it is out."""
    assert containment(BOUND, outside_ns=2_000, wide=mask("db", "0-3", tid=101)) is Outcome.FAILED
    assert containment(BOUND, outside_ns=2_000, wide=mask("db", "0-3", tid=101, times_seen=1)) is Outcome.UNDECIDED


@pytest.mark.parametrize(("times", "outcome"), [(1, "undecided"), (2, "failed")])
def test_masks(times: int, outcome: str) -> None:
    """Seen once it may be that of a process that is bound in a moment."""
    wide = mask("db", "0-3", tid=101, times_seen=times)
    found = evidence(thread_masks=(mask("db", "2-3"), wide))
    assert affinity_mask.RULE(claim_set(BOUND), found)[0].outcome.value == outcome


def test_no_control_file_is_compared() -> None:
    """What its cpuset holds was not promised."""
    found = evidence(files_before=(db_files(cpus=cpus("0-7")),), files_after=(db_files(cpus=cpus("0-7")),))
    assert applied.RULE(claim_set(BOUND), found)[0].outcome is Outcome.SKIPPED


@pytest.mark.parametrize(
    ("asks", "has", "outcome"),
    [("2-7", "2-3", "passed"), ("2-3", "2-3", "failed"), ("2-7", "2-4", "failed"), ("0-7", "2-3", "failed")],
)
def test_a_cpuset_that_asks_for_more(asks: str, has: str, outcome: str) -> None:
    """It must ask for what it was given, no less, and have what it is left."""
    file = db_files(cpus=cpus(asks), cpus_effective=cpus(has), mems=cpus("0-1"))
    found = evidence(files_before=(file,), files_after=(file,))
    assert applied.RULE(claim_set(LEFT), found)[0].outcome.value == outcome


def test_threads_of_a_pod_are_its_containers() -> None:
    """No thread is in the pod's own cgroup: nothing is missing."""
    pod = replace(claim_db(), kind=SubjectKind.POD)
    (verdict,) = affinity_mask.RULE(claim_set(pod), evidence(thread_masks=()))
    assert verdict.outcome is Outcome.SKIPPED
    assert [one.outcome for one in mems_containment.RULE(claim_set(pod), evidence(thread_masks=()))] == [
        Outcome.SKIPPED
    ]
