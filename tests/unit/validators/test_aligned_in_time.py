"""Alignments that were promised for a part of the window: a resize takes a promise away, or gives one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.alignment_builder import RULES
from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, cpus, db_files, use
from tests.unit.validators.machine_builder import machine
from tests.unit.validators.owners_builder import added, guest, moved, removed
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Alignment, Claim, Isolation, Preference
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Verdict
from validators.registry import judge

ALL = (Alignment.SMT, Alignment.LLC, Alignment.NUMA, Alignment.SOCKET)
POOL = claim_db(cpus=cpus("0-2,4-7"), isolation=Isolation.HOST, quota_us=None)
WEB = claim_web(cpus=cpus("1,5"), demand_cpus=None)


def db(own: str = "2,6", **changes: object) -> Claim:
    return replace(claim_db(cpus=cpus(own), alignments=ALL), **changes)  # type: ignore[arg-type]


def became(now: Claim, at_s: float = 5, before: str = "2,6") -> dict[str, Any]:
    """Another kind of promise from then on, as the follower writes it down: another life, then the promise."""
    end, begin = removed(at_s), added(at_s, str(now.cpus))
    end, begin = replace(end, cpus_before=cpus(before)), replace(begin, start_at_ns=end.end_at_ns + 1)
    begin = replace(begin, end_at_ns=begin.start_at_ns + 1)
    return {"transitions": (end, begin), "claim_changes": (ClaimChange(at_ns=begin.end_at_ns + 1000, claim=now),)}


def seen(before: str, after: str, **changes: Any) -> Evidence:
    ends = {name: (db_files(cpus_effective=cpus(had)),) for name, had in (("before", before), ("after", after))}
    return machine(before, files_before=ends["before"], files_after=ends["after"], **changes)


def verdict(rule: str, evidence: Evidence, *claims: Claim) -> Verdict:
    (found,) = (one for one in judge(claim_set(*claims), evidence) if (one.rule, one.subject) == (rule, "db"))
    return found


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(("own", "outcome"), [("2,6", "passed"), ("0,3", "failed")])
def test_a_claim_that_stops_asking_is_judged_until_then(kind: Alignment, own: str, outcome: str) -> None:
    """db has CPUs of its own until 5 s, and is of the pool then."""
    evidence = seen(own, "0-2,4-7", **became(POOL, before=own))
    found = verdict(RULES[kind].id, evidence, db(own))

    assert found.outcome == outcome, found.reason
    assert found.reason.startswith("until 5.0 s: CPUs ")


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(("own", "outcome"), [("2,6", "passed"), ("0,3", "failed")])
def test_a_claim_that_begins_to_ask_is_judged_from_then_on(kind: Alignment, own: str, outcome: str) -> None:
    """What the pool had before it was promised to no claim as whole cores of one node."""
    evidence = seen("0-2,4-7", own, **became(db(own), before="0-2,4-7"))
    found = verdict(RULES[kind].id, evidence, POOL)

    assert found.outcome == outcome, found.reason
    assert found.reason.startswith("from 5.0 s on: CPUs ")


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(("own", "outcome"), [("2,6", "passed"), ("0,3", "failed")])
def test_a_claim_that_asks_for_a_moment_in_between(kind: Alignment, own: str, outcome: str) -> None:
    """From 3 to 6 s; then of the pool again, and nothing that the kernel granted at either end is of that time."""
    first, second = became(db(own), 3, before="0-2,4-7"), became(POOL, 6, before=own)
    both = {key: first[key] + second[key] for key in first}
    found = verdict(RULES[kind].id, seen("0-2,4-7", "0-2,4-7", **both), POOL)

    assert found.outcome == outcome, found.reason
    assert found.reason.startswith("from 3.0 s until 6.0 s: CPUs ")


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(
    ("own", "granted", "outcome"), [("2,6", "2,6", "passed"), ("0,3", "0,3", "failed"), ("2,5", "2,6", "failed")]
)
def test_what_its_next_life_had_is_not_of_its_own_time(kind: Alignment, own: str, granted: str, outcome: str) -> None:
    """db has CPUs of its own until 5 s; then it is of the pool, which grows and shrinks: no promise of db's was broken
    by that, and none was kept by it.
    """
    first, grown = became(replace(POOL, cpus=cpus("0-7")), before=own), moved(6, "0-7", "2-7", POOL)
    shrunk = moved(7, "2-7", "2-3,6-7", POOL)
    every = {key: first[key] + grown[key] + shrunk[key] for key in first}
    found = verdict(RULES[kind].id, seen(granted, "2-3,6-7", **every), db(own))

    assert (found.outcome, found.reason.startswith("until 5.0 s: ")) == (outcome, True), found.reason
    assert f"CPUs {own} " in found.reason


def test_twice_is_the_worse_of_both() -> None:
    """On a whole core until 3 s, and on half of two cores from 6 s on."""
    first, second = became(POOL, 3), became(db("0,3"), 6, before="0-2,4-7")
    both = {key: first[key] + second[key] for key in first}
    found = verdict("smt-alignment", seen("2,6", "0,3", **both), db())

    assert (found.outcome, found.reason[:14]) == ("failed", "from 6.0 s on:")


@pytest.mark.parametrize(("cpu", "at_s", "outcome"), [(2, 1, "failed"), (6, 1, "failed"), (2, 7, "passed")])
def test_what_ran_on_its_cores_meanwhile(cpu: int, at_s: float, outcome: str) -> None:
    """A task of another pod, before and after the cores were given up."""
    evidence = seen("2,6", "0-2,4-7", **became(POOL), intruders=(guest(cpu, at_s),))

    assert verdict("smt-alignment", evidence, db()).outcome == outcome


@pytest.mark.parametrize("rule", ["smt-alignment", "exclusive-cpus"])
def test_the_pool_has_the_cores_then(rule: str) -> None:
    """What is of the pool runs there from then on, and so does db: time of both is of after the promise."""
    evidence = seen("2,6", "0-2,4-7", **became(POOL))
    grown = moved(5.2, "1,5", "1-2,5-6", WEB)
    evidence = replace(
        evidence,
        transitions=(*evidence.transitions, *grown["transitions"]),
        claim_changes=(*evidence.claim_changes, *grown["claim_changes"]),
        cpu_use=(*evidence.cpu_use, use("web", 1), use("web", 2)),
    )
    found = verdict(rule, evidence, db(), WEB)

    assert found.outcome == "passed", found.reason


@pytest.mark.parametrize(("after", "outcome"), [("2", "passed"), ("2,6", "passed")])
def test_a_resize_within_one_life(after: str, outcome: str) -> None:
    """It keeps its cgroup and gives half of a core back: the change itself is of neither promise."""
    less = db(after, alignments=())
    change = moved(5, "2,6", after, db())
    change["claim_changes"] = (ClaimChange(at_ns=change["transitions"][0].end_at_ns + 500, claim=less),)

    assert verdict("smt-alignment", seen("2,6", after, **change), db()).outcome == outcome


def test_another_promise_about_the_same() -> None:
    """Two nodes at most until 5 s, and one from then on: each binds in its time."""
    wide, narrow = (claim_db(cpus=cpus(own), max_numa_nodes=most) for own, most in (("2-5", 2), ("2-3", 1)))
    change = moved(5, "2-5", "2-3", wide)
    change["claim_changes"] = (ClaimChange(at_ns=change["transitions"][0].end_at_ns + 500, claim=narrow),)

    assert verdict("numa-alignment", seen("2-5", "2-3", **change), wide).outcome == "passed"
    assert verdict("numa-alignment", seen("2-5", "2-5", **change), wide).outcome == "failed"


def test_a_preference_in_its_time() -> None:
    """CPUs on different cores, until nothing was preferred any more."""
    spread = claim_db(cpus=cpus("2-3"), preferences=(Preference.CORES,))
    change = moved(5, "2-3", "2,6", spread)
    plain = claim_db(cpus=cpus("2,6"))
    change["claim_changes"] = (ClaimChange(at_ns=change["transitions"][0].end_at_ns + 500, claim=plain),)

    assert verdict("smt-alignment", seen("2-3", "2,6", **change), spread).outcome == "passed"
    assert verdict("smt-alignment", seen("2,6", "2,6", **change), spread).outcome == "failed"


def test_a_set_that_is_not_known_then() -> None:
    """Promised for a moment, of CPUs that are not known."""
    first, second = became(db(), 3, before="0-2,4-7"), became(POOL, 6)
    none = replace(first["claim_changes"][0].claim, cpus=None)
    changes = (replace(first["claim_changes"][0], claim=none), *second["claim_changes"])
    evidence = seen("0-2,4-7", "0-2,4-7", transitions=first["transitions"], claim_changes=changes)

    assert verdict("smt-alignment", evidence, POOL).outcome == "undecided"
