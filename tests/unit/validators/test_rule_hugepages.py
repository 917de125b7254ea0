"""The rule ``hugepages``: limits, usage, nodes, and what was not read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, cpus
from tests.unit.validators.machine_builder import machine, with_topology
from toolkit.model.claims import Claim, HugepageLimit
from toolkit.model.evidence import Transition
from toolkit.model.evidence.following import Following
from toolkit.model.placement import HugetlbUse, PageKind, PageReading, PageUse
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.hugepages import RULE

MB2 = 2 << 20
GOOD = HugetlbUse(claim="db", page_bytes=MB2, limit_bytes=4 * MB2, usage_bytes=MB2, failures=0, node_bytes={1: MB2})


def claim(limit: int = 4 * MB2, **changes: object) -> Claim:
    limits = (HugepageLimit(page_bytes=MB2, limit_bytes=limit),)
    return claim_db(hugepages=limits, mems=cpus("1"), **changes)


def judged(row: HugetlbUse | None, own: Claim | None = None, pages: tuple[PageReading, ...] | None = None) -> Verdict:
    rows = None if row is None else (row,)
    return RULE(claim_set(own or claim()), machine(hugetlb=rows, pages=pages))[0]


def mapped(node: int) -> tuple[PageReading, ...]:
    row = PageUse(claim="db", kind=PageKind.HUGE, node=node, total_bytes=MB2, pid=1, comm="db", process_bytes=MB2)
    return (PageReading(claim="db", processes=1, unread=0, pages=(row,)),)


def test_kept() -> None:
    """The promised limit, less usage than it, on the promised node."""
    assert judged(GOOD).outcome is Outcome.PASSED
    full = replace(GOOD, usage_bytes=4 * MB2, node_bytes={1: 4 * MB2})
    assert judged(full).outcome is Outcome.PASSED, "the whole limit may be used"


def test_nothing_promised_is_skipped() -> None:
    """No claim with huge pages; where a node is followed, what its pods ask for is no promise, and that is said."""
    assert RULE(claim_set(claim_db()), machine())[0].reason == "no claim promises huge pages"
    line = "limits: those of huge pages are not judged while the node is followed"
    followed = Following(source="kubelet", missing=("metrics: refused", line))
    (verdict,) = RULE(claim_set(claim_db()), machine(following=followed))

    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.reason == f"no claim promises huge pages ({line})"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit_bytes": -1}, "is none"),
        ({"limit_bytes": 5 * MB2}, "promised is"),
        ({"limit_bytes": 3 * MB2}, "promised is"),
        ({"usage_bytes": 5 * MB2, "node_bytes": {1: 5 * MB2}}, "are in use"),
        ({"node_bytes": {0: MB2, 1: 0}}, "on node 0"),
    ],
)
def test_broken(changes: dict[str, object], words: str) -> None:
    """The negative control: another limit, too much usage, or pages on another node."""
    verdict = judged(replace(GOOD, **changes))  # type: ignore[arg-type]

    assert verdict.outcome is Outcome.FAILED
    assert words in verdict.reason


def test_a_limit_is_kept_in_whole_pages() -> None:
    """Three and a half pages stand as three."""
    row = replace(GOOD, limit_bytes=3 * MB2)

    assert judged(row, claim(3 * MB2 + MB2 // 2)).outcome is Outcome.PASSED
    assert judged(replace(row, limit_bytes=4 * MB2), claim(3 * MB2 + MB2 // 2)).outcome is Outcome.FAILED


def test_a_limit_beyond_the_kernels_counter() -> None:
    """8Ei is one byte less to the API, and no limit to the kernel; 4Ei is a limit."""
    assert judged(replace(GOOD, limit_bytes=-1), claim((1 << 63) - 1)).outcome is Outcome.PASSED
    assert judged(replace(GOOD, limit_bytes=-1), claim(4 << 60)).outcome is Outcome.FAILED
    assert judged(replace(GOOD, limit_bytes=4 << 60), claim(4 << 60)).outcome is Outcome.PASSED


def test_mappings_are_a_second_witness() -> None:
    """Without numa_stat the mappings tell the node."""
    row = replace(GOOD, node_bytes=None)

    assert judged(row, pages=mapped(1)).outcome is Outcome.PASSED
    assert judged(row, pages=mapped(0)).outcome is Outcome.FAILED
    assert judged(row).outcome is Outcome.UNDECIDED
    assert judged(replace(row, usage_bytes=0)).outcome is Outcome.PASSED


@pytest.mark.parametrize("row", [None, replace(GOOD, limit_bytes=None), replace(GOOD, usage_bytes=None)])
def test_unread_files_are_undecided(row: HugetlbUse | None) -> None:
    """No controller, or files that were not read, never pass; another claim's row is not evidence."""
    assert judged(row).outcome is Outcome.UNDECIDED
    assert judged(replace(GOOD, claim="web")).outcome is Outcome.UNDECIDED


def test_on_one_node_the_node_is_known() -> None:
    """A machine with one node needs no word about where pages are."""
    rows = (replace(GOOD, node_bytes=None),)
    found = with_topology(machine(hugetlb=rows), numa_nodes={"1": "0-7"})

    assert RULE(claim_set(claim()), found)[0].outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ((), "skipped"),
        ((replace(GOOD, limit_bytes=None, usage_bytes=None, node_bytes=None),), "skipped"),
        ((replace(GOOD, limit_bytes=None),), "undecided"),
        (None, "undecided"),
        ((GOOD,), "passed"),
        ((replace(GOOD, limit_bytes=-1),), "failed"),
    ],
    ids=["gone", "going", "half", "no witness", "read", "wrong"],
)
def test_one_that_ends_in_a_followed_window(rows: tuple[HugetlbUse, ...] | None, outcome: str) -> None:
    """Its files are gone when they are read: no doubt; what was read of it counts."""
    end = Transition(claim="db", what="claim-removed", start_at_ns=5, end_at_ns=6)
    seen = machine(hugetlb=rows, following=Following(source="kubelet", readings=5), transitions=(end,))

    assert RULE(claim_set(claim()), seen)[0].outcome.value == outcome
