"""A pod's cgroup runs no tasks: its bursts are those of its containers together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.validators.evidence_builder import claim_set, claim_web, use
from tests.unit.validators.quota_builder import FREE, MS, levels, used
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import UsageBin
from toolkit.model.verdict import Outcome
from validators.quota.slots import slots_of
from validators.rules import quota_throttling

Slot = tuple[int, int, int]
POD = claim_web(kind=SubjectKind.POD)
A, B = (Claim(name=name, cgroup=f"{POD.cgroup}/{name}") for name in "ab")
INNER = Claim(name="inner", cgroup=f"{A.cgroup}/inner")


def slots(name: str, *found: Slot) -> list[UsageBin]:
    """Of a claim: begin, length and use in milliseconds."""
    return [
        UsageBin(claim=name, start_at_ns=begin * MS, length_ns=length * MS, usage_ns=usage * MS)
        for begin, length, usage in found
    ]


def together(**found: Sequence[Slot]) -> list[Slot]:
    bins = {name: slots(name, *rows) for name, rows in found.items()}
    rows = slots_of(POD, claim_set(POD, A, B, INNER), bins)
    return [(row.start_at_ns // MS, row.length_ns // MS, row.usage_ns // MS) for row in rows]


def test_slots_of_several_claims_add_up() -> None:
    """Of the same times one by one; where none ran is a slot, too, in which the rate goes on."""
    assert together(a=[(0, 100, 10), (100, 200, 0), (300, 100, 5)], b=[(0, 100, 20)]) == [
        (0, 100, 30),
        (100, 200, 0),
        (300, 100, 5),
    ]


def test_slots_that_overlap_in_part_are_one() -> None:
    """When in it the time was used is not known: no burst is made of it."""
    assert together(a=[(0, 100, 10), (100, 100, 10)], b=[(50, 100, 7)]) == [(0, 200, 27)]


def test_what_runs_below_a_container_is_in_its_slots_already() -> None:
    """It counts once; and slots of the claim's own come before all."""
    assert together(a=[(0, 100, 10)], inner=[(0, 100, 10)]) == [(0, 100, 10)]
    assert together(inner=[(0, 100, 10)]) == [(0, 100, 10)]
    assert together(web=[(0, 100, 9)], a=[(0, 100, 10)]) == [(0, 100, 9)]


@pytest.mark.parametrize(
    ("usage_ms", "outcome"), [([25] * 100, Outcome.PASSED), ([16] * 45 + [100] * 10 + [16] * 45, Outcome.FAILED)]
)
def test_a_burst_of_a_pod_fails(usage_ms: list[int], outcome: Outcome) -> None:
    """Its quota was lifted for a second, between two readings: the window's sum and the file say nothing of it."""
    rows = [(index * 100, 100, usage) for index, usage in enumerate(usage_ms)]
    ran = tuple(use(name, cpu, run_ns=sum(usage_ms) * MS) for cpu, name in enumerate("ab"))
    found = levels(used(4_990), FREE, cpu_use=ran, usage_bins=(*slots("a", *rows), *slots("b", *rows)))
    verdicts = {one.subject: one for one in quota_throttling.RULE(claim_set(POD, A, B), found)}

    assert verdicts[POD.name].outcome is outcome, verdicts[POD.name].reason
