"""Scans of all threads by the kernel's list of tasks: what is kept, and what is read from /proc. No kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from probes.masks.records import EXITING, OF_KERNEL
from tests.unit.probes.mask_node import LAYOUT, Node, record
from toolkit.model.cpuset import CpuSet


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Threads whose policy is not asked of the real kernel."""
    monkeypatch.setattr("probes.masks.thread.policy_of", lambda _tid: "other")
    return Node(tmp_path)


def test_a_record_is_read() -> None:
    """Words of CPUs before those of nodes; bits beyond what this host may have mean nothing; names of any bytes."""
    cpus = 1 << 69 | 1 << 70 | 0b101
    found = LAYOUT.decode(record(7, cpus, 9, tgid=5, policy=3 | 0x40000000, comm=b"a\n\xff\0rest", mems=0b110))

    assert LAYOUT.size == 64
    assert (found.ident, found.thread.tid, found.thread.pid, found.thread.policy) == (9, 7, 5, "batch")
    assert found.thread.comm == "a\\n\\xff"
    assert (str(found.thread.masks.cpus), str(found.thread.masks.mems)) == ("0,2,69", "1")
    assert (found.exiting, found.of_kernel) == (False, False)
    flagged = LAYOUT.decode(record(7, flags=EXITING | OF_KERNEL))
    assert (flagged.exiting, flagged.of_kernel) == (True, True)
    assert LAYOUT.decode(record(7, policy=77)).thread.policy == ""


def test_what_is_inside_is_taken_from_the_list(node: Node) -> None:
    """Each pass is a reading; another mask, another name is another row; a thread of no claim is nothing."""
    node.tasks.records = [record(7), record(8), record(9, ident=5)]
    node.scan(2)
    node.tasks.records[1] = record(8, comm=b"y")
    node.scan()

    rows = {(row.tid, row.comm): row for row in node.masks.values()}
    assert {key: row.times_seen for key, row in rows.items()} == {(7, "x"): 3, (8, "x"): 2, (8, "y"): 1}
    assert rows[8, "x"].first_at_ns == rows[8, "x"].last_at_ns == 100
    assert node.masks.scans == 3
    assert node.masks.gaps(node.subjects, 1 << 62)[0].scans == 3


def test_rows_are_a_windows_own(node: Node) -> None:
    """What a record means is remembered from window to window, how often it was read is not."""
    node.tasks.records = [record(7)]
    node.scan(2)
    node.method.begin()
    node.open()
    node.scan()

    assert node.seen() == {("a", 7, "0"): 1}


def test_against_a_claim_counts_what_proc_says(node: Node) -> None:
    """The list says that three are too wide: one is so, one was put back, one is no member. /proc is what is kept."""
    node.tasks.records = [record(tid, 0b111) for tid in (7, 8, 9)]
    node.proc(7, cpus="0-1")
    node.proc(8)
    node.proc(9, "/elsewhere", "0-2")
    node.scan()

    assert node.seen() == {("a", 7, "0-1"): 1, ("a", 8, "0"): 1}


def test_the_memory_nodes_count_too(node: Node) -> None:
    """A thread with one node more is read from /proc."""
    node.outer.claim = replace(node.outer.claim, mems=CpuSet.parse("0"))
    node.tasks.records = [record(7, mems=0b11)]
    node.scan()
    assert node.seen() == {}
    node.proc(7)
    node.scan()
    assert node.seen() == {("a", 7, "0"): 1}


def test_a_thread_that_is_being_moved_says_nothing(node: Node) -> None:
    """As in a scan of /proc: the next scan decides."""
    node.tasks.records = [record(7, 0b11)]
    node.proc(7, cpus="0-1")
    node.moves = (1,)
    node.scan()
    assert node.seen() == {}
    node.moves = ()
    node.scan()
    assert node.seen() == {("a", 7, "0-1"): 1}


def test_an_exiting_thread_is_not_judged(node: Node) -> None:
    """Its cgroup holds it no longer, and no change of the masks reaches it."""
    node.tasks.records = [record(7, 0b11, flags=EXITING)]
    node.proc(7, cpus="0-1")
    node.scan()
    assert node.seen() == {}


def test_a_thread_is_also_of_the_claim_around(node: Node) -> None:
    """The kernel side names the nearest claim; a scan of /proc lists the thread for both."""
    node.subjects = [node.outer, node.inner]
    node.outer.cpus = CpuSet.parse("0-1")
    node.tasks.records = [record(7, 0b11, ident=2)]
    node.proc(7, "/a/b", "0-1")
    node.scan()
    assert node.seen() == {("a", 7, "0-1"): 1, ("b", 7, "0-1"): 1}
    node.tasks.records = [record(7, 0b1, ident=2)]
    node.scan()
    assert node.seen() == {("a", 7, "0-1"): 1, ("b", 7, "0-1"): 1, ("a", 7, "0"): 1, ("b", 7, "0"): 1}


@pytest.mark.parametrize("what", ["under way", "complete"])
def test_nothing_is_kept_of_the_time_of_a_change(node: Node, what: str) -> None:
    """A claim that changes while the list is read: no row, no gap; the other claim is read as always."""
    other = replace(node.outer, claim=replace(node.outer.claim, name="c", cgroup="/c"), ident=3)
    node.subjects = [node.outer, other]
    node.tasks.records = [record(7, 0b11), record(8, ident=3)]
    node.proc(7, cpus="0-1")

    def change() -> None:
        node.outer.changing = what == "under way"
        node.outer.epoch += what == "complete"

    node.tasks.during = change  # type: ignore[method-assign]
    node.scan()
    assert node.seen() == {("c", 8, "0"): 1}
    assert [gap.scans for gap in node.masks.gaps(node.subjects, 0)] == [0, 1]


def test_a_changed_claim_judges_anew(node: Node) -> None:
    """A thread that was inside the CPUs of before is read from /proc where it is outside the new ones."""
    node.outer.cpus = CpuSet.parse("0-1")
    node.tasks.records = [record(7, 0b11)]
    node.proc(7, cpus="0-1")
    node.scan()
    node.outer.cpus, node.outer.epoch = CpuSet.parse("0"), 1
    node.proc(7, cpus="0-1", name="late")
    node.scan()
    assert {(row.epoch, row.comm) for row in node.masks.values()} == {(0, "x"), (1, "late")}


def test_a_scan_that_was_cut_short_is_none(node: Node) -> None:
    """By the end of the window: nothing is kept, nothing counted."""
    node.tasks.records = [record(7)]
    node.method.threads = 1 << 20
    node.masks.scan_all(node.subjects, lambda: node.tasks.passes > 0)
    assert (node.seen(), node.masks.scans, node.masks.gaps(node.subjects, 0)[0].scans) == ({}, 0, 0)


def test_rows_that_are_made_once_do_not_slow_the_pace(node: Node) -> None:
    """The first scan of a window makes the rows of all threads: no later one does, so no pause goes by it."""
    node.tasks.records = [record(tid) for tid in range(2, 90)]
    node.method.threads = 1 << 20
    took_ns = node.masks.scan_all(node.subjects, lambda: False)
    assert took_ns == node.masks.dearest_ns - node.method.once_ns < node.masks.dearest_ns
    node.scan()
    assert node.method.once_ns == 0
    node.open()
    node.scan()
    assert node.method.once_ns > 0
