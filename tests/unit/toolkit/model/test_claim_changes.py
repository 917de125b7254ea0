"""What is promised anew while a window is open: rules judge by it, and a run that is read back has it."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.serde import from_data, to_data
from toolkit.model.verdict import Outcome
from validators.registry import judge, rule_named

DB = Claim(name="db", cgroup="/db", cpus=CpuSet.of([0, 1]))


def test_the_last_change_is_in_force() -> None:
    """Each claim is what it was changed to last, in its place; one whose name is new comes behind."""
    claims = claim_set(DB, Claim(name="web", cgroup="/web"))
    narrow, none = replace(DB, cpus=CpuSet.of([0])), replace(DB, cpus=None)
    new = Claim(name="new", cgroup="/new")
    changes = tuple(ClaimChange(at_ns=at, claim=claim) for at, claim in enumerate((none, new, narrow)))

    assert in_force(claims, changes).claims == (narrow, claims.claims[1], new)
    assert in_force(claims, ()).claims == claims.claims


def test_rules_judge_by_what_is_in_force() -> None:
    """A claim that lost its promise of CPUs is asked for none; the change is saved with the evidence."""
    seen = replace(evidence(), claim_changes=(ClaimChange(at_ns=5, claim=replace(DB, cpus=None)),))
    back = from_data(Evidence, to_data(seen), "evidence")
    rule = (rule_named("cpuset-containment"),)

    before = judge(claim_set(DB), evidence(), rule)
    (after,) = judge(claim_set(DB), back, rule)

    assert [one.outcome for one in before] != [Outcome.SKIPPED]
    assert after.outcome is Outcome.SKIPPED
