"""The list of tasks compared with /proc: whose turn it is, and what is a doubt. No kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from probes.masks import sample, strays
from probes.masks.decoder import MaskReading
from probes.masks.records import OF_KERNEL
from probes.masks.sample import Sample
from probes.masks.strays import Strays
from probes.masks.thread import UnreadableError
from probes.readings import Readings
from tests.unit.probes.mask_node import Node, record
from tests.unit.probes.readings import DB, FRAME
from toolkit.host.cgroupfs import Mode
from toolkit.model.blind_spots import Witness


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Threads whose policy is not asked of the real kernel."""
    monkeypatch.setattr("probes.masks.thread.policy_of", lambda _tid: "other")
    return Node(tmp_path)


def test_a_thread_that_is_wide_by_proc_alone_is_found_by_the_sample(node: Node) -> None:
    """A list that says too little hides no thread whose turn it is."""
    node.lists(7)
    node.tasks.records = [record(7)]
    node.proc(7, cpus="0-1")
    node.scan()
    assert node.seen() == {("a", 7, "0-1"): 1, ("a", 7, "0"): 1}


def test_a_row_begins_with_its_earliest_reading(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample is read before the pass, and kept after it: no mask is read last before it was read first."""
    node.lists(7)
    node.proc(7)
    late_ns = 1 << 62
    monkeypatch.setattr(node.tasks, "read", lambda: [(late_ns, record(7))])
    node.scan()
    (row,) = node.masks.values()
    assert row.first_at_ns < row.last_at_ns == late_ns
    assert row.times_seen == 2


def test_every_thread_has_its_turn(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of each claim after the other, however unlike they are; where all have their turn in one scan, once."""
    monkeypatch.setattr(sample, "THREADS", 4)
    other = replace(node.outer, claim=replace(node.outer.claim, name="c", cgroup="/c"), ident=3)
    node.lists(*range(10, 20))
    node.lists(30, 31, cgroup="c")
    looks = Sample(node.hierarchy, node.root)
    turns = [[tid for _, tid in looks.due([other, node.outer]).threads] for _ in range(5)]

    assert turns == [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19, 30], [31, 10, 11], [12, 13, 14, 15]]
    monkeypatch.setattr(sample, "THREADS", 100)
    looks.due([other, node.outer])
    assert sorted(tid for _, tid in looks.due([other, node.outer]).threads) == [*range(10, 20), 30, 31]


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        ([], "thread 7 (x) of a is not among its threads in the kernel's list"),
        ([record(7, ident=3)], "thread 7 (x) of a is not among its threads in the kernel's list"),
        ([record(7, 0)], "CPUs 0, memory nodes 0, policy other (x, process 7) by /proc, and CPUs ,"),
        ([record(7, mems=0)], "memory nodes , policy other"),
        ([record(7, comm=b"y")], "(y, process 7) by the kernel's list"),
        ([record(7, tgid=6)], "(x, process 6) by the kernel's list"),
        ([record(7, policy=1)], "policy fifo"),
    ],
)
def test_a_disagreement_that_stands_is_a_doubt(node: Node, listed: list[bytes], says: str) -> None:
    """Met in three scans in a row; of the claim, of the masks; gone with what it is about."""
    node.lists(7)
    node.proc(7)
    node.tasks.records = listed
    node.scan(sample.STANDS - 1)
    assert node.masks.doubts == {}
    node.scan()
    assert says in node.masks.doubts["a"][7]

    doubts = {"db": tuple(node.masks.doubts["a"].values()) * 2}
    (spot,) = MaskReading(doubts=doubts).decode(Readings(FRAME, ())).spots
    assert (spot.claim, spot.witnesses, spot.text.endswith("(and 1 more threads)")) == ("db", (Witness.MASKS,), True)
    assert DB in FRAME.names


def test_a_disagreement_that_is_gone_begins_anew(node: Node) -> None:
    """A thread that the list lacked in two scans and has in the third."""
    node.lists(7)
    node.proc(7)
    for _ in range(2):
        node.scan(sample.STANDS - 1)
        node.tasks.records = [record(7)]
        node.scan()
        node.tasks.records = []
    assert node.masks.doubts == {}


@pytest.mark.parametrize("meanwhile", ["ended", "changed", "moved"])
def test_a_change_while_the_list_is_read_is_no_disagreement(node: Node, meanwhile: str) -> None:
    """/proc says something else after the pass than before it, in each scan."""
    node.lists(7)

    def during() -> None:
        if meanwhile == "ended":
            (node.root / "proc/7/status").unlink()
        else:
            node.proc(7, cpus="" if meanwhile == "changed" else "0", cgroup="/" if meanwhile == "moved" else "/a")

    node.tasks.during = during  # type: ignore[method-assign]
    for _ in range(2 * sample.STANDS):
        node.proc(7)
        node.scan()
    assert node.masks.doubts == {}


def test_a_kernel_threads_name_is_longer_in_proc(node: Node) -> None:
    """No disagreement: the list has fifteen bytes of it."""
    node.lists(7)
    node.proc(7, name="vhost-worker-with-a-name")
    node.tasks.records = [record(7, comm=b"vhost-worker-wi", flags=OF_KERNEL)]
    node.scan(2 * sample.STANDS)
    assert node.masks.doubts == {}


def test_a_proc_that_is_gone_is_no_agreement(node: Node) -> None:
    """None of the sample can be read, nor process 1."""
    node.lists(7)
    node.tasks.records = [record(7)]
    (node.root / "proc/1/status").unlink()
    with pytest.raises(UnreadableError):
        node.scan()
    assert node.masks.gaps(node.subjects, 0)[0].scans == 0


def test_strays_are_looked_for_in_the_claims_whose_turn_it_is(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread whose quota is another cgroup's is met in its turn, and known in the next scan, whatever has that."""
    now = [0]
    monkeypatch.setattr(strays.time, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(sample, "THREADS", 1)
    hierarchy = replace(node.hierarchy, mode=Mode.HYBRID, legacy=(("cpu", node.root / "cpu"),))
    claim = replace(node.outer.claim, quota_us=20_000)
    node.outer.claim = claim
    node.subjects = [node.outer, replace(node.outer, claim=replace(claim, name="c", cgroup="/c"), ident=3)]
    node.method.strays = Strays(hierarchy, node.root)
    for name, tids in (("a", (7,)), ("c", (8,))):
        node.lists(*tids, cgroup=name)
        (node.root / "cpu" / name).mkdir(parents=True)
        (node.root / "cpu" / name / "tasks").write_text("8\n")
    node.proc(7)
    node.proc(8, "/c")
    (node.root / "proc/7/comm").write_text("x\n")
    node.tasks.records = [record(7), record(8, ident=3)]
    for _ in range(3):
        node.scan()
        now[0] += strays.PATIENCE_NS + 1
    assert {(name, tid) for name, found in node.masks.strays.items() for _, tid in found} == {("a", 7)}
