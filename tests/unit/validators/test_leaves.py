"""A task that leaves its claim's cgroup without ending: a finding of the claim, and a foreign pod's time elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, coverage, evidence, intruder
from toolkit.model.actions import CgroupMove
from toolkit.model.blind_spots import BlindSpot, Witness
from toolkit.model.claims import ClaimSet, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass, ThrottledBelow
from toolkit.model.runtimes import INIT_NS
from toolkit.model.verdict import Outcome, Verdict
from validators.rule import Rule
from validators.rules import affinity_mask, cpuset_containment, exclusive_cpus, noise, quota_free, quota_throttling

PASSED, FAILED, UNDECIDED = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED


def move(**changes: Any) -> CgroupMove:
    """``web``'s task 77 was moved to the root by a shell of the host."""
    values: dict[str, Any] = {
        "at_ns": 1_000,
        "tid": 77,
        "pid": 77,
        "comm": "app",
        "whole_process": True,
        "leaves": True,
        "from_claim": "web",
        "to_claim": "",
        "hierarchy": "v2",
        "cgroup": "/",
        "writer_tid": 9,
        "writer_pid": 9,
        "writer_comm": "sh",
    }
    return CgroupMove(**{**values, **changes})


def elsewhere(**changes: Any) -> Intruder:
    """That task on ``db``'s own CPU, in the root."""
    values = {"cgroup": "/", "claim": "web", "left": 77, "first_at_ns": 2_000, "total_ns": 1_000_000}
    return intruder(OwnerClass.CLAIM, **{**values, **changes})


def judged(rule: Rule, subject: str, found: Evidence, claims: ClaimSet | None = None) -> Verdict:
    verdicts = rule(claim_set() if claims is None else claims, found)
    return next(one for one in verdicts if one.subject == subject)


def with_move(*moves: CgroupMove, **changes: Any) -> Evidence:
    return evidence(cgroup_moves=moves or (move(),), **changes)


def test_it_is_a_finding_of_its_claim_and_the_others_foreign_time() -> None:
    """Which task, when, for where, moved by whom; and what it ran on the other's own CPU is its claim's."""
    found = with_move(intruders=(elsewhere(),))
    web, db = judged(cpuset_containment.RULE, "web", found), judged(exclusive_cpus.RULE, "db", found)

    assert web.outcome is FAILED
    assert "app (pid 77) left its cgroup for /, moved by sh (pid 9)" in web.reason
    assert (web.measures["left_count"], web.measures["left_ns"]) == (1, 1_000_000)
    assert (db.outcome, db.measures["foreign_workload_ns"], db.measures["system_ns"]) == (FAILED, 1_000_000, 0)
    assert judged(cpuset_containment.RULE, "db", found).outcome is PASSED


def test_one_that_left_before_the_window_is_known_by_that() -> None:
    """It is out for many windows; of one whose leave is not known its owner is not known."""
    row = elsewhere(first_at_ns=0)
    found = evidence(left_before=(move(at_ns=-5_000_000_000),), intruders=(row,))

    assert judged(cpuset_containment.RULE, "web", found).outcome is FAILED
    assert judged(exclusive_cpus.RULE, "db", found).outcome is FAILED
    assert judged(exclusive_cpus.RULE, "db", evidence(intruders=(row,))).outcome is UNDECIDED


@pytest.mark.parametrize(
    ("writer", "outcome"),
    [
        ({"writer_comm": "systemd", "writer_pid": 1}, PASSED),
        ({"writer_comm": "runc"}, PASSED),
        ({"writer_comm": "containerd-shim"}, PASSED),
        ({"writer_comm": "runc", "writer_in_pods": True}, FAILED),
        ({"writer_comm": "runc", "writer_claim": "web"}, FAILED),
        ({"writer_comm": "bash"}, FAILED),
    ],
)
def test_a_runtime_of_the_host_moves_by_right(writer: dict[str, Any], outcome: Outcome) -> None:
    """By its name, and only from outside of pods: what runs inside can have any name."""
    found = with_move(move(**writer), intruders=(elsewhere(),))

    assert judged(cpuset_containment.RULE, "web", found).outcome is outcome
    assert judged(exclusive_cpus.RULE, "db", found).outcome is outcome
    if outcome is PASSED:
        assert 1_000_000 in [one.measures.get("system_ns") for one in noise.RULE(claim_set(), found)]


def test_a_service_of_the_host_that_is_a_runtime_itself() -> None:
    """Slurm's daemon is a service with a claim: what is born in it and goes to the job's cgroup leaves by right."""
    service = claim_web(name="slurmd", cgroup="/system.slice/slurmd.service", pod="")
    claims = claim_set(claim_db(), service)
    away = move(from_claim="slurmd", comm="slurmstepd", writer_comm="slurmstepd", writer_pid=77, writer_claim="slurmd")

    assert "left" not in judged(cpuset_containment.RULE, "slurmd", with_move(away), claims).reason
    other = replace(away, writer_comm="sh", writer_pid=9)
    assert "left" in judged(cpuset_containment.RULE, "slurmd", with_move(other), claims).reason


@pytest.mark.parametrize(("ns", "outcome"), [(INIT_NS, PASSED), (INIT_NS + 1, FAILED)])
def test_a_visit_is_none_as_long_as_it_is_one(ns: int, outcome: Outcome) -> None:
    """What came and went by its own hand with one program is a runtime at work, if it needs no more than that."""
    row = replace(elsewhere(total_ns=ns, visit=True), owner=OwnerClass.SYSTEM)
    found = with_move(move(visit=True, writer_pid=77, writer_comm="helper"), intruders=(row,))

    assert judged(cpuset_containment.RULE, "web", found).outcome is outcome
    assert judged(exclusive_cpus.RULE, "db", found).outcome is outcome


def test_back_on_its_own_cpu_it_is_the_owner() -> None:
    """A task of ``db`` that left is no foreigner on ``db``'s CPUs."""
    found = with_move(move(from_claim="db"), intruders=(elsewhere(claim="db"),))

    assert judged(exclusive_cpus.RULE, "db", found).outcome is not FAILED
    assert judged(cpuset_containment.RULE, "db", found).outcome is FAILED


def test_an_unclaimed_pod_that_moved_out_is_a_pod() -> None:
    """Its time is a foreign pod's, wherever it is."""
    away = move(from_claim="", from_pods=True)
    row = replace(elsewhere(claim=""), owner=OwnerClass.FOREIGN_POD)

    assert judged(exclusive_cpus.RULE, "db", with_move(away, intruders=(row,))).outcome is FAILED
    kept = replace(away, writer_comm="systemd")
    assert judged(exclusive_cpus.RULE, "db", with_move(kept, intruders=(row,))).outcome is PASSED


def test_a_pause_sandbox_is_no_workload() -> None:
    """What its runtime does with it breaks no promise."""
    pause = claim_web(kind=SubjectKind.SANDBOX)

    assert "left" not in judged(cpuset_containment.RULE, "web", with_move(), claim_set(claim_db(), pause)).reason


def test_a_claim_inside_is_still_inside() -> None:
    """A move to a cgroup below, which has a claim of its own, leaves nothing."""
    inner = claim_web(name="inner", cgroup="/kubepods/podb/web/inner")
    claims = claim_set(claim_db(), claim_web(), inner)
    down = move(to_claim="inner", cgroup=inner.cgroup)

    assert judged(cpuset_containment.RULE, "web", with_move(down), claims).outcome is PASSED
    up = move(from_claim="inner", to_claim="web", cgroup="/kubepods/podb/web")
    assert "left" in judged(cpuset_containment.RULE, "inner", with_move(up), claims).reason


@pytest.mark.parametrize(
    ("hierarchy", "rule", "subject"),
    [
        ("cpu,cpuacct", quota_free.RULE, "db"),
        ("cpu", quota_throttling.RULE, "web"),
        ("cpuset", affinity_mask.RULE, "web"),
        ("v2", quota_free.RULE, "db"),
    ],
)
def test_what_was_promised_there_did_not_hold_it(hierarchy: str, rule: Rule, subject: str) -> None:
    """In a v1 hierarchy whose controller promises something: nothing is passed, and the reason names it all."""
    assert judged(rule, subject, evidence()).outcome is PASSED
    away = move(from_claim=subject, hierarchy=hierarchy, to_claim=subject, cgroup="/slow")
    verdict = judged(rule, subject, with_move(away))

    assert verdict.outcome is UNDECIDED
    assert "app (pid 77)" in verdict.reason
    assert "/slow" in verdict.reason
    assert judged(rule, subject, with_move(replace(away, writer_comm="systemd"))).outcome is PASSED
    assert judged(rule, subject, with_move(replace(away, leaves=False))).outcome is PASSED
    assert judged(rule, subject, with_move(replace(away, hierarchy="pids"))).outcome is PASSED


@pytest.mark.parametrize(("where", "outcome"), [("2", UNDECIDED), ("0-1", PASSED), (None, PASSED)])
def test_a_stray_weakens_every_owner_on_whose_cpus_it_may_be(where: str | None, outcome: Outcome) -> None:
    """Where a thread of ``web`` runs is not judged: on ``db``'s CPU it may have been."""
    cpus = None if where is None else CpuSet.parse(where)
    spot = BlindSpot(text="thread 5 of web is elsewhere", witnesses=(Witness.SWITCHES,), claim="web", cpus=cpus)
    found = evidence(coverage=replace(coverage(), blindness=(spot,)))

    assert judged(exclusive_cpus.RULE, "db", found).outcome is outcome
    assert judged(cpuset_containment.RULE, "db", found).outcome is PASSED, "its own tasks were all seen"


def test_throttled_by_a_cgroup_below() -> None:
    """A measure and a word, and no pass; what is another claim's own has a promise of its own."""
    row = ThrottledBelow(
        claim="db", cgroup="/kubepods/poda/db/c", nr_periods=50, nr_throttled=40, throttled_ns=3_000_000
    )
    verdict = judged(quota_free.RULE, "db", evidence(throttled_below=(row,)))

    assert verdict.outcome is UNDECIDED
    assert "/kubepods/poda/db/c below it was, in 40 of 50 periods, 3.0 ms" in verdict.reason
    assert (verdict.measures["nr_throttled_below"], verdict.measures["throttled_below_ns"]) == (40, 3_000_000)
    inner = claim_set(claim_db(), claim_web(name="c", cgroup="/kubepods/poda/db/c"))
    assert judged(quota_free.RULE, "db", evidence(throttled_below=(row,)), inner).outcome is PASSED
