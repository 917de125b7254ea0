"""Exclusive CPUs whose owner restarts, ends, begins or ceases to own them in the window (rules exclusive-cpus, smt)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_db, cpus, intruder, mask, use
from tests.unit.validators.owners_builder import CORES, WHOLE, added, change, removed
from tests.unit.validators.trust_builder import healthy
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Isolation
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.verdict import Verdict
from validators.registry import judge


def stranger(at_s: float) -> dict[str, Any]:
    """A task of a pod without a claim that came to CPU 2 then, for 1 s."""
    return {
        "intruders": (intruder(OwnerClass.FOREIGN_POD, first_at_ns=round(at_s * SECOND), total_ns=SECOND),),
        "environment": replace(healthy().environment, topology=CORES),
    }


def verdict(evidence: Evidence, rule: str = "exclusive-cpus") -> Verdict:
    (found,) = (one for one in judge(WHOLE, evidence) if (one.rule, one.subject) == (rule, "db"))
    return found


@pytest.mark.parametrize("rule", ["exclusive-cpus", "smt-alignment"])
@pytest.mark.parametrize(("came_s", "outcome"), [(2, "failed"), (4, "undecided"), (7, "failed")])
def test_a_container_that_restarts_owns_its_cpus_in_both_lives(rule: str, came_s: float, outcome: str) -> None:
    """It ended at 3 s and began again at 5 s: what came in between may have stayed."""
    found = verdict(healthy(transitions=(removed(3), added(5)), **stranger(came_s)), rule)

    assert found.outcome == outcome, found.reason


@pytest.mark.parametrize("rule", ["exclusive-cpus", "smt-alignment"])
@pytest.mark.parametrize(("came_s", "outcome"), [(2, "failed"), (4, "passed")])
def test_what_comes_after_its_end_breaks_nothing(rule: str, came_s: float, outcome: str) -> None:
    """It ended at 3 s for good."""
    assert verdict(healthy(transitions=(removed(3),), **stranger(came_s)), rule).outcome == outcome


@pytest.mark.parametrize("rule", ["exclusive-cpus", "smt-alignment"])
@pytest.mark.parametrize(("came_s", "outcome"), [(1, "undecided"), (7, "failed")])
def test_what_was_there_before_it_began_is_not_blamed(rule: str, came_s: float, outcome: str) -> None:
    """It began at 5 s."""
    assert verdict(healthy(transitions=(added(5),), **stranger(came_s)), rule).outcome == outcome


@pytest.mark.parametrize(("came_s", "outcome"), [(2, "failed"), (9.5, "passed")])
def test_cpus_that_are_given_up_were_exclusive_until_then(came_s: float, outcome: str) -> None:
    """The state file's entry vanished at 9 s while the container went on: another kind of promise, the same name."""
    host = claim_db(cpus=cpus("0,2-3"), isolation=Isolation.HOST, quota_us=None)
    changes = (ClaimChange(at_ns=9 * SECOND + 2, claim=host),)
    seen = healthy(transitions=(removed(9), added(9, "0,2-3")), claim_changes=changes, **stranger(came_s))
    found = verdict(seen)

    assert found.outcome == outcome
    assert outcome == "failed" or found.reason.endswith("until `db` gave them up")


def test_a_pool_that_grows_onto_the_cores_of_a_pod_that_ended_breaks_nothing() -> None:
    """db ended at 3 s; web's pool got its CPUs at 4 s and ran there."""
    web = WHOLE.claims[1]
    grown = replace(web, cpus=cpus("0,2-3"), demand_cpus=None)
    moved = change("mask-change", 4, claim="web", cpus_before=cpus("0"), cpus_after=cpus("0,2-3"), cause="kubelet")
    seen = healthy(
        environment=replace(healthy().environment, topology=CORES),
        transitions=(removed(3), moved),
        claim_changes=(ClaimChange(at_ns=4 * SECOND, claim=grown),),
        cpu_use=(use("db", 2), use("db", 3), use("web", 0), use("web", 2)),
        thread_masks=(mask("db", "2-3"), mask("web", "0", tid=200), mask("web", "0,2-3", tid=200, epoch=1)),
    )

    assert [verdict(seen, rule).outcome for rule in ("exclusive-cpus", "smt-alignment")] == ["passed", "passed"]
