"""A container of the owner's own pod that was not watched yet runs on the owner's CPUs: its next life, or a stranger.

Times are of a slow node of a real kubelet (v1.20.2, pure v2, systemd driver): the old life's cgroup went at 5.7 s, the
new one ran from 10.9 s on, the readings showed it a window later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    claim_db,
    claim_set,
    cpus,
    db_files,
    evidence,
    files,
    intruder,
    mask,
    use,
)
from tests.unit.validators.machine_builder import with_topology
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.claims import Alignment, Claim, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Intruder, OwnerClass, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.held import Held, Why
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import exclusive_cpus, smt_alignment

PASSED, FAILED, UNDECIDED = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED
POD = "/kubepods/poda"
OWNER = claim_db(pod_uid="u", container="db")
NEXT = replace(OWNER, cgroup=f"{POD}/db2")
SIDE = Claim(name="side", pod="a", pod_uid="u", container="side", cgroup=NEXT.cgroup, cpus=cpus("0-1"))
AGAIN = replace(NEXT, pod_uid="again")
OTHER = Claim(
    name="new",
    pod="b",
    pod_uid="v",
    container="new",
    cgroup="/kubepods/podb/new",
    cpus=OWNER.cpus,
    isolation=OWNER.isolation,
)
WINDOW_S = 20.0


def ns(at_s: float) -> int:
    return round(at_s * SECOND)


def row(at_s: float = 10.9, ms: float = 3_000, cgroup: str = NEXT.cgroup, **changes: Any) -> Intruder:
    """A program that has run in a new cgroup for longer than any start of a container needs."""
    values = {"cgroup": cgroup, "first_at_ns": ns(at_s), "total_ns": ns(ms / 1000), "comm": "sleeper", **changes}
    return intruder(OwnerClass.FOREIGN_POD, **values)


def event(what: str, at_s: float, claim: str = "db", cpus_after: CpuSet | None = None) -> Transition:
    return Transition(claim=claim, what=what, start_at_ns=ns(at_s), end_at_ns=ns(at_s), cpus_after=cpus_after)


GONE = event("cgroup-gone", 5.7)


def judged(*rows: Intruder, owner: Claim = OWNER, changes: tuple[ClaimChange, ...] = (), **more: Any) -> Verdict:
    """How the owner comes out on a node that was read last 2.6 s after the window's begin."""
    known = Following(source="kubelet", gap_ns=ns(2), last_reading_ns=ns(2.6), known_until_ns=ns(2.6))
    values = {"duration_ns": ns(WINDOW_S), "following": known, "cpu_use": (use("db", 2),), "intruders": rows, **more}
    claims = in_force(claim_set(owner), changes)
    return exclusive_cpus.RULE.check(claims, evidence(**values))[0]


def shown_later(claim: Claim, at_s: float = 17.6, **more: Any) -> Outcome:
    """The new cgroup ran from the window's begin on; then the readings name its owner."""
    began = event("claim-added", at_s, claim.name, claim.cpus)
    events = (event("claim-removed", at_s - 1), began, *more.pop("events", ()))
    change = ClaimChange(at_ns=ns(at_s), claim=claim)
    return judged(row(0.09, 6_400), changes=(change,), transitions=events, **more).outcome


def test_a_life_that_a_reading_of_the_window_shows_late_is_the_owner() -> None:
    """It had run for seconds before that: pinned, as the owner that it is."""
    assert shown_later(NEXT) is PASSED


@pytest.mark.parametrize(
    "other",
    [
        SIDE,
        replace(SIDE, kind=SubjectKind.EPHEMERAL, name="debug"),
        replace(SIDE, cpus=cpus("0-2")),
        AGAIN,
        OTHER,
        replace(NEXT, name="db#2"),
    ],
    ids=["another", "an ephemeral one", "a pool with the CPU", "a pod made again", "another pod's", "beside the owner"],
)
def test_any_other_that_a_reading_shows_there_is_foreign(other: Claim) -> None:
    """It is known which container that is, and the owner ran until the end."""
    change = ClaimChange(at_ns=ns(17.6), claim=replace(other, name=f"{other.name}#2"))
    added = event("claim-added", 17.6, change.claim.name, other.cpus)
    assert judged(row(0.09, 6_400), changes=(change,), transitions=(added,)).outcome is FAILED
    assert judged(row(0.09, 6_400), later=(other,)).outcome is FAILED
    gone = (GONE,) if other not in (AGAIN, OTHER) and other.name != "db#2" else ()
    assert judged(row(), later=(other,), transitions=gone).outcome is FAILED


@pytest.mark.parametrize("other", [AGAIN, OTHER], ids=["a pod made again", "another pod's"])
def test_the_next_owner_of_the_cpus_of_one_that_had_ended_has_them_by_right(other: Claim) -> None:
    """A reading shows it late: pinned and at work for seconds by then, after the owner's cgroup was gone."""
    change = ClaimChange(at_ns=ns(17.6), claim=replace(other, name=f"{other.name}#2"))
    events = (GONE, event("claim-removed", 17.5), event("claim-added", 17.6, change.claim.name, other.cpus))
    assert judged(row(cgroup=other.cgroup), changes=(change,), transitions=events).outcome is PASSED
    assert judged(row(cgroup=other.cgroup), later=(other,), transitions=(GONE,)).outcome is PASSED
    assert judged(row(5, cgroup=other.cgroup), later=(other,), transitions=(GONE,)).outcome is FAILED


def test_a_next_life_on_other_cpus_is_not_at_home_there() -> None:
    """The readings give it other CPUs, and the old ones are the pod's no more."""
    assert judged(row(), later=(replace(NEXT, cpus=cpus("4-5")),), transitions=(GONE,)).outcome is FAILED
    assert judged(row(), later=(replace(NEXT, isolation=Isolation.HOST),), transitions=(GONE,)).outcome is FAILED


def test_the_first_task_of_a_container_says_since_when_it_is_there() -> None:
    """Another of its tasks came to another CPU while the owner still ran."""
    assert judged(row(), row(5, cpu=0, tid=78), transitions=(GONE,)).outcome is FAILED


def test_a_container_in_no_reading_may_be_the_next_life() -> None:
    """The owner has ended, its pod got a new container, and the node was read last before both."""
    verdict = judged(row(), row(10.95, 40, tid=78, comm="runc:[2:INIT]"), transitions=(GONE,))
    assert verdict.outcome is UNDECIDED
    assert "a new container of the pod of `db` which no reading of the node shows yet" in verdict.reason
    assert judged(row(cgroup=f"{NEXT.cgroup}/inner"), transitions=(GONE,)).outcome is UNDECIDED
    assert judged(row(), later=(NEXT,), transitions=(GONE,)).outcome is PASSED


@pytest.mark.parametrize(
    ("at_s", "where", "events"),
    [
        (10.9, "/kubepods/podx/c", (GONE,)),
        (10.9, f"{POD}x/db2", (GONE,)),
        (10.9, POD, (GONE,)),
        (10.9, NEXT.cgroup, ()),
        (10.9, NEXT.cgroup, (GONE, event("cgroup-made", 7))),
        (10.9, NEXT.cgroup, (event("cgroup-gone", 5.7, "web"),)),
        (5.6, NEXT.cgroup, (GONE,)),
    ],
    ids=["another pod", "a longer name", "no container", "it runs", "it is back", "another ended", "before its end"],
)
def test_no_reading_is_no_excuse_for_others(at_s: float, where: str, events: tuple[Transition, ...]) -> None:
    """A stranger's pod, and what runs beside the owner."""
    assert judged(row(at_s, cgroup=where), transitions=events).outcome is FAILED


@pytest.mark.parametrize("owner", [replace(OWNER, pod_uid=""), replace(OWNER, kind=SubjectKind.POD)])
def test_an_owner_that_is_no_pods_container_has_no_next_life_beside_it(owner: Claim) -> None:
    """The cgroup above it is not its pod's: a service's neighbours are others, and so is a pod's."""
    assert judged(row(), owner=owner, transitions=(GONE,)).outcome is FAILED


@pytest.mark.parametrize(("read_s", "outcome"), [(10, UNDECIDED), (22, UNDECIDED), (23.5, FAILED)])
def test_a_container_that_a_reading_must_know_is_a_stranger(read_s: float, outcome: Outcome) -> None:
    """Its runtime lists a container once it has made it, 12 s after it entered the cgroup at the latest."""
    known = Following(source="kubelet", last_reading_ns=ns(2.6), known_until_ns=ns(read_s))
    assert judged(row(), transitions=(GONE,), following=known).outcome is outcome


def test_evidence_that_does_not_say_when_the_node_was_read_has_its_longest_gap() -> None:
    """That of older versions."""
    for gap_s, last_s, outcome in ((12, None, UNDECIDED), (1, None, UNDECIDED), (1, 23.5, FAILED)):
        last_ns = None if last_s is None else ns(last_s)
        known = Following(source="kubelet", gap_ns=ns(gap_s), last_reading_ns=last_ns)
        assert judged(row(), transitions=(GONE,), following=known).outcome is outcome
    assert judged(row(), transitions=(GONE,), following=None).outcome is FAILED


def test_a_container_that_is_being_made_in_every_reading_may_be_the_next_life() -> None:
    """It was listed as created, and has run its program since the last of them; in a stranger's pod that is nothing."""
    known = Following(source="kubelet", last_reading_ns=ns(30), known_until_ns=ns(30))
    for cgroup, outcome in ((NEXT.cgroup, UNDECIDED), ("/kubepods/podx/c", FAILED)):
        made = Held(claim="x/c", cgroup=cgroup, why=Why.BEING_MADE, from_ns=ns(11), to_ns=ns(12))
        found = judged(row(cgroup=cgroup), transitions=(GONE,), held=(made,), following=known)
        assert found.outcome is outcome


def test_an_owner_that_ended_before_the_window_shows_no_sign_of_life() -> None:
    """The window between: no event, no reading. A switch or a thread of the owner says that it runs, and so may
    files that were found, or not looked for.
    """
    read = Following(source="kubelet", last_reading_ns=ns(-14), known_until_ns=ns(-3))
    for signs, outcome in (
        ({}, UNDECIDED),
        ({"cpu_use": (use("db", 3),)}, FAILED),
        ({"thread_masks": (mask("db", "2-3"),)}, FAILED),
        ({"files_before": (db_files(),)}, FAILED),
        ({"files_before": ()}, FAILED),
    ):
        silent = {"cpu_use": (), "thread_masks": (), "files_before": (files(OWNER.cgroup),)}
        assert judged(row(0.09), following=read, **{**silent, **signs}).outcome is outcome


def test_a_new_container_of_a_pod_may_share_the_pods_cpus() -> None:
    """Level `pod`: what has no CPUs of its own in the pod shares them; a reading knows what was there by then."""
    shared = replace(OWNER, isolation=Isolation.POD)
    sharer = replace(SIDE, cpus=shared.cpus, isolation=Isolation.POD)
    assert judged(row(), owner=shared, later=(sharer,)).outcome is PASSED
    assert judged(row(), owner=shared, later=(replace(sharer, isolation=Isolation.HOST),)).outcome is FAILED
    assert judged(row(), owner=shared, later=(replace(sharer, pod_uid="other"),)).outcome is FAILED
    assert judged(row(), owner=shared).outcome is UNDECIDED
    assert judged(row(2.5), owner=shared).outcome is FAILED
    assert judged(row(cgroup="/kubepods/podx/c"), owner=shared).outcome is FAILED


def test_cpus_of_an_init_container_go_on_to_its_pod() -> None:
    """The container that comes after it has them for its own; beside it they are the init container's alone."""
    main = replace(OWNER, name="main", container="main", cgroup=NEXT.cgroup)
    assert judged(row(), later=(main,), transitions=(GONE,)).outcome is PASSED
    assert judged(row(), later=(main,)).outcome is FAILED


def test_a_pod_that_is_made_again_under_its_name_has_the_cpus_when_the_other_is_over() -> None:
    """A stateful set's: beside the pod before it its task was a stranger, whatever a later reading says."""
    again = replace(NEXT, pod_uid="again")
    change = ClaimChange(at_ns=ns(17.6), claim=again)
    events = (event("claim-removed", 16.6), event("claim-added", 17.6, cpus_after=again.cpus))
    for more, outcome in (((GONE,), PASSED), ((), FAILED)):
        assert judged(row(), changes=(change,), transitions=(*events, *more)).outcome is outcome


def test_whole_cores_go_on_with_their_owner() -> None:
    """`smt-alignment` asks the same question about the cores."""
    known = Following(source="kubelet", last_reading_ns=ns(2.6), known_until_ns=ns(2.6))
    whole = claim_set(replace(OWNER, alignments=(Alignment.SMT,)))
    for later, events, outcome in (((NEXT,), (), PASSED), ((), (GONE,), UNDECIDED), ((SIDE,), (GONE,), FAILED)):
        found = evidence(cpu_use=(use("db", 2),), intruders=(row(),), following=known, later=later, transitions=events)
        cores = with_topology(replace(found, duration_ns=ns(WINDOW_S)), core_cpus=["0,1", "2,3"])
        assert smt_alignment.RULE.check(whole, cores)[0].outcome is outcome
