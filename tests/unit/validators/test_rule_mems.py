"""The rule ``mems-containment``: masks, pages by kind, and what is not judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, coverage, cpus, mask
from tests.unit.validators.machine_builder import machine, with_topology
from tests.unit.validators.mems_builder import GOOD, page, reading
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.evidence.following import Following
from toolkit.model.placement import PageKind, PageReading
from toolkit.model.verdict import Outcome, Verdict
from validators.rules.mems_containment import RULE


def found(pages: tuple[PageReading, ...] | None = (GOOD,), mems: str = "1") -> Evidence:
    return machine(pages=pages, thread_masks=(mask("db", "2,6", mems_allowed=cpus(mems)),))


def judged(evidence: Evidence, mems: str = "1") -> Verdict:
    return RULE(claim_set(claim_db(cpus=cpus("2,6"), mems=cpus(mems))), evidence)[0]


def test_kept() -> None:
    """Own pages and masks on the node pass; a file's pages on another node are only counted."""
    verdict = judged(found())

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["file_bytes"] == 4096


def test_nothing_promised_is_skipped() -> None:
    """No claim with memory nodes: one line."""
    assert RULE(claim_set(claim_db()), found())[0].outcome is Outcome.SKIPPED


@pytest.mark.parametrize("kind", [PageKind.ANON, PageKind.HEAP, PageKind.STACK, PageKind.HUGE])
def test_one_own_page_elsewhere_fails(kind: PageKind) -> None:
    """The negative control: a single page of the process itself on another node, named with its process."""
    verdict = judged(found((reading(page(PageKind.ANON, 1), page(kind, 0)),)))

    assert verdict.outcome is Outcome.FAILED
    assert f"4096 {kind} on node 0" in verdict.reason
    assert "process 7 (db)" in verdict.reason
    assert verdict.measures[f"{kind}_on_node0_bytes"] == 4096


def test_a_wide_mask_fails() -> None:
    """The negative control: a thread that may allocate elsewhere fails, though it has not yet."""
    verdict = judged(found(mems="0-1"))

    assert verdict.outcome is Outcome.FAILED
    assert "nodes 0-1, promised is 1" in verdict.reason


@pytest.mark.parametrize(
    "pages",
    [
        None,
        (),
        (reading(),),
        (reading(page(PageKind.FILE, 1)),),
        (replace(GOOD, unread=1),),
        (replace(GOOD, claim="x"),),
    ],
)
def test_missing_pages_are_undecided(pages: tuple[PageReading, ...] | None) -> None:
    """Pages not read, of no process, of a file only, or not of all processes: not enough."""
    assert judged(found(pages)).outcome is Outcome.UNDECIDED


def test_missing_masks_are_undecided() -> None:
    """Pages alone do not say where the next one goes."""
    assert judged(replace(found(), thread_masks=())).outcome is Outcome.UNDECIDED
    assert judged(replace(found(), coverage=coverage(proc_scans=0))).outcome is Outcome.UNDECIDED


def test_on_one_node_nothing_can_lie_elsewhere() -> None:
    """A machine with a single node needs no pages; with a second node without CPUs it does."""
    one = with_topology(found(None, mems="0"), numa_nodes={"0": "0-7"})
    two = with_topology(found(None, mems="0"), numa_nodes={"0": "0-7", "1": ""})

    assert judged(one, "0").outcome is Outcome.PASSED
    assert judged(two, "0").outcome is Outcome.UNDECIDED


def passes_through(evidence: Evidence) -> Evidence:
    """The container ends in a window of a followed node."""
    end = Transition(claim="db", what="claim-removed", start_at_ns=5, end_at_ns=6)
    return replace(evidence, following=Following(source="kubelet", readings=5), transitions=(end,))


@pytest.mark.parametrize(
    ("seen", "outcome", "words"),
    [
        (found(()), "skipped", "between two readings of its pages; all thread masks on node 1"),
        (found((replace(reading(), processes=0),)), "skipped", "between two readings of its pages"),
        (found(None), "undecided", "was not read"),
        (found((reading(),)), "undecided", "no resident page"),
        (found((replace(reading(), processes=0, unread=1),)), "undecided", "no resident page"),
        (found((GOOD,)), "passed", "MB of 1 processes"),
        (found((reading(page(PageKind.ANON, 0)),)), "failed", "on node 0"),
        (found((), mems="0-1"), "failed", "promised is 1"),
        (found((), mems=""), "undecided", "were not read"),
        (replace(found(()), thread_masks=()), "skipped", "between two readings of its threads"),
    ],
    ids=["gone", "empty", "no witness", "no page", "unread", "read", "page", "mask", "blank", "no thread"],
)
def test_one_that_ends_in_a_followed_window(seen: Evidence, outcome: str, words: str) -> None:
    """What is gone when pages are read is no doubt; what was read of it counts, and nothing else is forgiven."""
    verdict = judged(passes_through(seen))
    assert (verdict.outcome.value, words in verdict.reason) == (outcome, True), verdict.reason
    still = judged(seen)
    assert still.outcome.value == (outcome if outcome != "skipped" else "undecided")


def test_runtimes_at_work_are_counted_and_no_evidence() -> None:
    """Beside others they are named; alone they are no page of the container."""
    verdict = judged(found((replace(GOOD, joining=2),)))
    assert verdict.outcome is Outcome.PASSED
    assert verdict.reason.endswith("; 2 processes of a runtime not counted")
    assert verdict.measures["joining_processes_count"] == 2

    assert judged(found((replace(reading(), processes=0, joining=1),))).outcome is Outcome.UNDECIDED
