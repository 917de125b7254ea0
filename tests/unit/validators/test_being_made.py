"""A container that is being made on a node that is followed: what is excused on other pods' CPUs, and for how much."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_db, claim_set, cpus, evidence, intruder, use
from tests.unit.validators.machine_builder import with_topology
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.claims import Alignment, Claim
from toolkit.model.evidence import Intruder, OwnerClass, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.held import Held, Why
from toolkit.model.verdict import Outcome
from validators.intruders import being_made
from validators.rules import exclusive_cpus, reserved_cpus, smt_alignment

NEW = Claim(name="new", pod="new", cgroup="/kubepods/podn/c", cpus=cpus("1"))
FOLLOWED = {"following": Following(source="kubelet")}


def began(at_s: float, name: str = "new") -> Transition:
    at_ns = round(at_s * SECOND)
    return Transition(claim=name, what="claim-added", start_at_ns=at_ns, end_at_ns=at_ns, cpus_after=cpus("1"))


def starting(*rows: Intruder, **changes: Any) -> tuple[str, ...]:
    """How the three rules about foreign tasks come out about CPU 2, on a node that is followed."""
    found = evidence(cpu_use=(use("db", 2), use("new", 1)), intruders=rows, **FOLLOWED, **changes)
    whole = claim_db(alignments=(Alignment.SMT,))
    claims = claim_set(whole, NEW, reserved_cpus=cpus("2"), strict_reservation=True)
    whole_cores = with_topology(found, core_cpus=["0,1", "2,3"])
    verdicts = [rule.check(claims, whole_cores)[0] for rule in (exclusive_cpus.RULE, smt_alignment.RULE)]
    free = claim_set(NEW, reserved_cpus=cpus("2"), strict_reservation=True)
    alone = replace(found, cpu_use=(use("new", 1),))
    return tuple(verdict.outcome.value for verdict in (*verdicts, reserved_cpus.RULE.check(free, alone)[0]))


def init(at_s: float = 1, ms: float = 20, cgroup: str = "/kubepods/podn/c", **changes: Any) -> Intruder:
    row = {"comm": "runc:[2:INIT]", "cgroup": cgroup, "first_at_ns": round(at_s * SECOND), **changes}
    return intruder(OwnerClass.FOREIGN_POD, **{"total_ns": round(ms * 1e6), **row})


def test_a_container_that_is_being_made_breaks_nothing() -> None:
    """Its runtime sits in the new cgroup unpinned; soon after the container is there. Under any name of its threads."""
    assert starting(init(1), init(1.1, tid=78, comm="exe"), transitions=(began(3),)) == ("passed",) * 3


def test_a_life_that_came_and_went_was_being_made_too() -> None:
    """The claim's cgroup is another one by the end of the window."""
    first = replace(NEW, cgroup="/kubepods/podn/first")
    changes = (ClaimChange(at_ns=3 * SECOND, claim=first), ClaimChange(at_ns=6 * SECOND, claim=NEW))
    row = init(1, cgroup=first.cgroup, comm="guest")
    found = evidence(cpu_use=(use("db", 2),), intruders=(row,), transitions=(began(3), began(6)), **FOLLOWED)

    for known, outcome in ((changes, Outcome.PASSED), (changes[1:], Outcome.FAILED)):
        claims = in_force(claim_set(claim_db()), known)
        assert exclusive_cpus.RULE.check(claims, found)[0].outcome is outcome


def test_a_name_alone_excuses_no_task() -> None:
    """Nine seconds under a runtime's name, where no container begins: no start needs that."""
    assert starting(init(0, 9_000, "/kubepods/podx/c", comm="runc:[x")) == ("failed",) * 3
    many = [init(0, 1_000, "/kubepods/podx/c", tid=tid) for tid in (77, 78)]
    assert starting(*many) == ("failed",) * 3


def test_a_runtime_is_in_the_scope_before_it_is_in_the_cgroup_inside() -> None:
    """crun's: systemd puts it into the scope; the claim is about the cgroup inside that has the limits."""
    new = replace(NEW, cgroup="/kubepods/podn/c.scope/container")
    row = init(1, cgroup="/kubepods/podn/c.scope", comm="crun")
    found = evidence(cpu_use=(use("db", 2),), intruders=(row,), transitions=(began(3),), **FOLLOWED)
    assert exclusive_cpus.RULE.check(claim_set(claim_db(), new), found)[0].outcome is Outcome.PASSED


def test_cgroups_below_a_container_are_one_start() -> None:
    """1.5 s in each of two cgroups that its tasks made: no start needs so much."""
    below = [init(1, 1_500, f"/kubepods/podn/c/{name}", tid=77 + name) for name in (0, 1)]
    assert starting(below[0], transitions=(began(3),)) == ("passed",) * 3
    assert starting(*below, transitions=(began(3),)) == ("failed",) * 3


@pytest.mark.parametrize(
    ("row", "transitions"),
    [
        (init(1, 1_700), (began(3),)),
        (init(4), (began(3),)),
        (init(1), ()),
        (init(1), (began(1.2, "other"),)),
        (init(1, comm="guest", cgroup="/kubepods/podx/c"), (began(3),)),
    ],
    ids=["too long", "after it began", "it never began", "another began", "another name elsewhere"],
)
def test_a_start_excuses_itself_alone(row: Intruder, transitions: tuple[Transition, ...]) -> None:
    """The container of this very cgroup, later, within the time that a start takes."""
    assert starting(row, transitions=transitions) == ("failed",) * 3


def test_a_start_that_takes_too_long_is_none() -> None:
    """The runtime had entered longer before than any was seen to."""
    patience_s = being_made.PATIENCE_NS / SECOND
    for at_s, outcome in ((1, "failed"), (3, "passed")):
        changes = {"duration_ns": 60 * SECOND, "transitions": (began(patience_s + 2),)}
        assert starting(init(at_s), **changes) == (outcome,) * 3


def test_a_start_whose_container_was_not_seen_is_undecided() -> None:
    """The window ended too early, or the container ended before it was watched; or it was no runtime."""
    assert starting(init(9.9, cgroup="/kubepods/podx/c")) == ("undecided",) * 3


@pytest.mark.parametrize(
    ("name", "ms", "outcome"),
    [(f"crio-conmon-{'c' * 64}.scope", 8, "undecided"), ("crio-conmon-c", 1_700, "failed"), ("c", 8, "failed")],
)
def test_a_monitor_whose_container_was_not_seen_is_undecided(name: str, ms: float, outcome: str) -> None:
    """CRI-O's runs unpinned in the pod; its container came and went between two readings. By its place, for so long."""
    assert starting(init(1, ms, f"/kubepods/podx/{name}", comm="conmon")) == (outcome,) * 3


def test_a_container_that_the_runtime_is_making_is_known_before_it_is_watched() -> None:
    """The runtime lists it as created when the window ends: that excuses its runtime, and nothing else there."""
    made = Held(claim="x/c", cgroup="/kubepods/podx/c", why=Why.BEING_MADE, from_ns=9 * SECOND)
    for changes, outcome in (
        ({}, "passed"),
        ({"ms": 1_700}, "failed"),
        ({"comm": "guest"}, "failed"),
        ({"cgroup": "/kubepods/podx/d"}, "undecided"),
    ):
        assert starting(init(**{"at_s": 9.5, "cgroup": "/kubepods/podx/c", **changes}), held=(made,)) == (outcome,) * 3


@pytest.mark.parametrize(("at_s", "ms", "outcome"), [(9, 8, "undecided"), (7, 8, "failed"), (9, 1_700, "failed")])
def test_what_came_after_the_last_reading_is_not_known(at_s: float, ms: float, outcome: str) -> None:
    """A container that began so late may be the owner's next life: what sat there before is a stranger."""
    following = Following(source="kubelet", gap_ns=2 * SECOND)
    row = init(at_s, ms, "/kubepods/podx/c", comm="guest")
    found = evidence(cpu_use=(use("db", 2),), intruders=(row,), following=following)
    assert exclusive_cpus.RULE.check(claim_set(claim_db(), NEW), found)[0].outcome.value == outcome


def came(at_s: float, ms: float, last_s: float | None = None, *later: Claim, where: str = "/kubepods/podx/c") -> str:
    """How a program that came to a pod's CPU comes out. :param last_s: when the node was last read."""
    last_ns = None if last_s is None else round(last_s * SECOND)
    following = Following(source="kubelet", gap_ns=2 * SECOND, last_reading_ns=last_ns)
    row = init(at_s, ms, where, comm="guest")
    found = evidence(cpu_use=(use("db", 2),), intruders=(row,), following=following, later=later)
    return exclusive_cpus.RULE.check(claim_set(claim_db(pod_uid="u"), NEW), found)[0].outcome.value


@pytest.mark.parametrize(
    ("at_s", "last_s", "outcome"), [(9.6, 9.5, "undecided"), (9.4, 9.5, "failed"), (5, -3, "undecided")]
)
def test_the_time_of_the_last_reading_counts_where_it_is_known(at_s: float, last_s: float, outcome: str) -> None:
    """And not the longest time between two: what was there when the node was read is a stranger."""
    assert came(at_s, 8, last_s) == outcome


BEGAN = Claim(name="new2", pod="x", cgroup="/kubepods/podx/c", cpus=cpus("1"))
NEXT = claim_db(cgroup="/kubepods/poda/db2", pod_uid="u")


@pytest.mark.parametrize(
    ("ms", "later", "where", "outcome"),
    [
        (8, BEGAN, "/kubepods/podx/c/inner", "passed"),
        (1_700, BEGAN, "/kubepods/podx/c", "failed"),
        (8, BEGAN, "/kubepods/podx/d", "undecided"),
        (1_700, NEXT, "/kubepods/poda/db2", "passed"),
        (1_700, replace(NEXT, cpus=cpus("3")), "/kubepods/poda/db2", "failed"),
        (1_700, replace(NEXT, pod_uid="again"), "/kubepods/poda/db2", "failed"),
        (1_700, replace(NEXT, name="db#2"), "/kubepods/poda/db2", "failed"),
    ],
    ids=["another's start", "too long", "elsewhere", "next life", "of other CPUs", "of another pod", "beside it"],
)
def test_the_reading_after_the_window_names_its_owner(ms: float, later: Claim, where: str, outcome: str) -> None:
    """A container that began at the window's end is excused as one that began in it; the owner's next life owns."""
    assert came(9.6, ms, 9.5, later, where=where) == outcome
    assert came(9.6, 8, 9.5, where=where) == "undecided"


@pytest.mark.parametrize(
    ("where", "changes", "gap_s", "outcome"),
    [
        ("/kubepods/podx/pause", {}, 2, "undecided"),
        ("/kubepods/poda/pause", {}, 2, "undecided"),
        ("/kubepods/podx/pause", {"comm": "guest"}, 2, "undecided"),
        ("", {}, 2, "undecided"),
        ("/kubepods/podx/pause", {"gone": False}, 2, "failed"),
        ("/kubepods/podx/pause", {"ms": 1_700}, 2, "failed"),
        ("/kubepods/podx/pause", {"ms": 0.41}, 0, "failed"),
        ("/kubepods/podx/pause", {}, None, "failed"),
    ],
    ids=[
        "a stranger's",
        "the owner's pod's",
        "of any name",
        "no path",
        "it is there",
        "too long",
        "seen",
        "not followed",
    ],
)
def test_a_container_that_came_and_went_between_two_readings(
    where: str, changes: dict[str, Any], gap_s: float | None, outcome: str
) -> None:
    """A pause sandbox of a pod that was deleted at once ran 0.41 ms there. No runtime pins it."""
    following = None if gap_s is None else Following(source="kubelet", gap_ns=round(gap_s * SECOND))
    row = init(**{"at_s": 1, "ms": 0.41, "cgroup": where, "comm": "pause", "gone": True, **changes})
    found = evidence(cpu_use=(use("db", 2),), intruders=(row,), following=following)
    verdict = exclusive_cpus.RULE.check(claim_set(claim_db(pod_uid="u"), NEW), found)[0]
    assert verdict.outcome.value == outcome
    if outcome == "undecided":
        assert (
            f"a container of {'the pod of `db`' if 'poda' in where else 'a pod'} that came and went" in verdict.reason
        )


def test_a_container_that_was_there_when_the_node_was_read_did_not_come_and_go_between_readings() -> None:
    """Its tasks ran at 1 s and at 4 s, and the node went unread for 2 s at most: a container that no runtime lists."""
    rows = [init(at_s, 0.41, "/kubepods/podx/c", gone=True, comm="guest", tid=tid) for tid, at_s in ((77, 1), (78, 4))]
    following = Following(source="kubelet", gap_ns=2 * SECOND)
    for seen, outcome in ((rows, "failed"), (rows[:1], "undecided")):
        found = evidence(cpu_use=(use("db", 2),), intruders=tuple(seen), following=following)
        assert exclusive_cpus.RULE.check(claim_set(claim_db(), NEW), found)[0].outcome.value == outcome


def test_without_a_node_that_is_followed_no_start_is_expected() -> None:
    """Claims of a file are complete before the window opens: what is elsewhere in the pods' tree is foreign."""
    found = evidence(intruders=(init(1),), transitions=(began(3),))
    assert exclusive_cpus.RULE(claim_set(claim_db(), NEW), found)[0].outcome is Outcome.FAILED
