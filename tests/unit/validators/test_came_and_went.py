"""Claims of a followed node that came, went or did not run: what may be skipped of them, and what was not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_db, claim_set, coverage, cpus, evidence, mask
from tests.unit.validators.mems_builder import GOOD, page, reading
from tests.unit.validators.owners_builder import added, removed
from toolkit.model.blind_spots import ScanGap
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.evidence import Evidence
from toolkit.model.evidence.following import Following
from toolkit.model.placement import PageKind
from toolkit.model.verdict import Verdict
from validators.registry import rule_named

FOLLOWING = Following(source="kubelet")
DB = claim_db(mems=cpus("1"))


def verdict(rule: str, found: Evidence, **claim: Any) -> Verdict:
    claims = in_force(claim_set(replace(DB, **claim)), found.claim_changes)
    (one,) = (one for one in rule_named(rule).check(claims, found) if one.subject == "db")
    return one


@pytest.mark.parametrize("rule", ["affinity-mask", "mems-containment"])
@pytest.mark.parametrize(("longest_s", "outcome"), [(0.4, "skipped"), (0.8, "undecided")])
def test_a_claim_that_was_there_for_longer_than_between_two_readings(rule: str, longest_s: float, outcome: str) -> None:
    """It began at 2 s and no thread of it was ever read: a moment before the end that is no fault."""
    gap = ScanGap(claim="db", scans=0, longest_ns=round(longest_s * SECOND), at_ns=2 * SECOND, allowed_ns=SECOND // 2)
    found = evidence(
        transitions=(added(2),), following=FOLLOWING, thread_masks=(), coverage=coverage(scan_gaps=(gap,)), pages=()
    )

    assert verdict(rule, found).outcome == outcome


@pytest.mark.parametrize(("used_ms", "outcome"), [(99, "skipped"), (100, "undecided")])
def test_a_claim_that_did_not_run_used_no_time(used_ms: int, outcome: str) -> None:
    """A container that sleeps is skipped; one whose cgroup counts time was not seen, and did not sleep."""
    rows = tuple(
        replace(row, usage_ns=used_ms * 1_000_000) if (row.claim, row.level) == ("db", 0) else row
        for row in evidence().bandwidth
    )
    found = evidence(cpu_use=evidence().cpu_use[2:], bandwidth=rows, following=FOLLOWING)

    assert verdict("cpuset-containment", found).outcome == outcome
    assert verdict("cpuset-containment", replace(found, following=None)).outcome == "undecided"


def lives(before: str, after: str, **more: Any) -> Evidence:
    """Made again at 5 s on another node."""
    now = ClaimChange(at_ns=5 * SECOND + 5000, claim=replace(DB, mems=cpus("1")))
    old = mask("db", "2-3", mems_allowed=cpus(before), last_at_ns=3 * SECOND)
    new = mask("db", "2-3", mems_allowed=cpus(after), first_at_ns=5 * SECOND + 100, tid=101)
    base = {
        "transitions": (removed(3), added(5)),
        "claim_changes": (now,),
        "thread_masks": (old, new),
        "pages": (GOOD,),
    }
    return evidence(**base | more)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [("0", "1", "passed"), ("0-1", "1", "failed"), ("0", "0-1", "failed"), ("0", "0", "failed")],
)
def test_a_life_on_another_node(before: str, after: str, outcome: str) -> None:
    """A pod that is made again under its name within the window has memory of node 1, and had of node 0."""
    assert verdict("mems-containment", lives(before, after), mems=cpus("0")).outcome == outcome


def test_a_thread_that_keeps_the_old_nodes() -> None:
    """What was right until 5 s is wrong long after that."""
    kept = mask("db", "2-3", mems_allowed=cpus("0"))
    found = lives("0", "1", thread_masks=(kept,), transitions=())

    assert verdict("mems-containment", found, mems=cpus("0")).outcome == "failed"


@pytest.mark.parametrize(("nodes", "outcome"), [("1", "passed"), ("0-1", "failed")])
def test_nodes_that_are_promised_no_more(nodes: str, outcome: str) -> None:
    """Until 5 s: its masks are judged until then, and pages that are read at the end are of no promise."""
    now = ClaimChange(at_ns=5 * SECOND, claim=replace(DB, mems=None))
    old = mask("db", "2-3", mems_allowed=cpus(nodes), last_at_ns=4 * SECOND)
    free = mask("db", "2-3", mems_allowed=cpus("0-1"), first_at_ns=9 * SECOND, tid=101)
    pages = (reading(page(PageKind.ANON, 0)),)
    found = evidence(claim_changes=(now,), thread_masks=(old, free), pages=pages)

    assert verdict("mems-containment", found).outcome == outcome
    unseen = replace(found, thread_masks=(free,))
    assert verdict("mems-containment", unseen).outcome == "undecided"
