"""How often control files are read: all of them as a share of a CPU allows, those that were written to at once."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.cgroups import file_reader
from probes.cgroups.control_files import ControlFiles
from probes.cgroups.files import Files
from probes.cgroups.pace import Pace
from probes.cgroups.watched_tree import WatchedTree
from probes.window import Window
from tests.unit.probes.paced_node import ALL, CLAIMS, PacedNode


@pytest.mark.parametrize(
    ("costs_s", "pause_s"),
    [((), 1.0), ((0.05,), 1.0), ((0.004, 0.009), 1.0), ((0.05, 0.06), 5.0), ((0.06, 0.05), 5.0), ((9.0, 9.0), 10.0)],
)
def test_a_share_of_a_cpu_says_how_often(costs_s: tuple[float, ...], pause_s: float) -> None:
    """As asked for while that costs less; else so seldom that it does, but for a bound. One dear turn is no measure."""
    pace = Pace(100.0, 1.0, 0.01, 10.0)
    for cost_s in costs_s:
        pace.done(100.0, cost_s)
    assert pace.pause_s() == pytest.approx(pause_s)
    assert pace.slow == (pause_s > 1.0)
    assert not pace.due(100.0 + pause_s - 0.01)
    assert pace.due(100.0 + pause_s + 0.01)
    assert pace.due(101.01, at_once=True)


def test_the_bound_is_never_shorter_than_what_was_asked_for() -> None:
    """An operator who asks for every minute gets that."""
    pace = Pace(0.0, 60.0, 0.01, 10.0)
    pace.done(0.0, 5.0)
    pace.done(0.0, 5.0)
    assert pace.pause_s() == 60.0


def test_a_cgroup_of_many_is_there_once() -> None:
    """Those above several claims, and the topmost, are where something changes without a write."""
    tree = WatchedTree.of((*CLAIMS, "/pods/one/sidecar", "/system/db"))
    assert len(tree.cgroups) == len(set(tree.cgroups)) == 8
    assert set(tree.above) == {"/pods", "/pods/one", "/system"}
    assert set(tree.below("/pods/one")) == {"/pods/one/db", "/pods/one/sidecar"}
    assert tree.below("/pods/o") == ()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PacedNode:
    return PacedNode(tmp_path, monkeypatch)


def test_what_was_written_to_is_read_at_once(node: PacedNode) -> None:
    """In the round after the word came, it alone, and once."""
    node.quiet()
    (node.root / "pods/one/db/cpu.max").write_text("70000 100000\n")
    node.written = frozenset({"/pods/one/db", "/elsewhere"})
    node.reader.round(lambda: False)
    node.written = frozenset()
    assert node.seen == []
    for _ in range(3):
        node.reader.round(lambda: False)
    assert node.seen == ["/pods/one/db"]
    assert [row.quota_us for row in node.files.changes(0)] == [70_000]
    assert node.files.readings == 2, "the sweep is slow"


def test_a_new_cgroup_is_read_as_often_as_was_asked_for(node: PacedNode) -> None:
    """All its directories may not be watched yet; so are those above it."""
    node.quiet()
    node.observer.subjects[CLAIMS[1]] = replace(node.observer.subjects[CLAIMS[1]], cgroup_id=8)
    node.reader._often.period_s = 1e-3
    node.until(lambda: node.seen.count("/pods/two/web") > 2)
    assert "/pods/one/db" not in node.seen
    assert "/pods/two" in node.seen


def test_what_was_heard_while_nothing_listened_is_no_word(node: PacedNode) -> None:
    """After a flood the first round knows of no moment until which every write was heard."""
    node.quiet()
    node.observer.ledger.heard_ns = time.monotonic_ns()
    node.written = None
    node.reader._sweep.period_s = 1e6
    node.reader.round(lambda: False)
    assert node.reader._heard == (0, frozenset())


def test_what_was_written_between_two_windows_is_read_in_the_next(node: PacedNode) -> None:
    """The word may come after the edge at which the files were read, and before the window is open."""
    node.quiet()
    node.closed = True
    node.written = frozenset({"/pods/one/db"})
    node.reader.round(lambda: False)
    node.written = frozenset()
    node.reader.round(lambda: False)
    assert node.seen == []
    node.closed = False
    node.reader.round(lambda: False)
    assert node.seen == ["/pods/one/db"]


def test_without_the_witness_of_writes_no_write_is_known(node: PacedNode) -> None:
    """An observer may be composed without it."""
    files = Files(node.observer)
    assert files._written() is None
    assert not files._misses_none()


@pytest.mark.parametrize("turned", ["while it is read", "before it is known"])
def test_what_is_read_while_a_window_turns_over_is_read_again(node: PacedNode, turned: str) -> None:
    """Written after the edge had read it: the next window begins with the old value, and sees the new one at once.

    By its next sweep the old one may have been put back.
    """
    node.quiet()
    known, before = node.files._known, node.files
    edge = {one: known.read(one) for one in ALL}
    (node.root / "pods/one/db/cpu.max").write_text("70000 100000\n")
    node.written = frozenset({"/pods/one/db"})
    node.reader.round(lambda: False)
    node.written = frozenset()

    def turn() -> None:
        before.end(time.monotonic_ns())
        ended.closed = True
        node.files = ControlFiles(known, edge, time.monotonic_ns())
        node.observer.window = cast("Window", SimpleNamespace(closed=False, again=node.again))

    ended = cast("Any", node)
    real = before.look
    if turned == "while it is read":
        before.look = lambda cgroup: (turn(), real(cgroup))  # type: ignore[assignment, func-returns-value]
        node.reader.round(lambda: False)
    else:
        node.reader.round(lambda: False)
        turn()
    assert node.seen == ["/pods/one/db"]
    for _ in range(3):
        node.reader.round(lambda: False)

    assert [row.quota_us for row in node.files.changes(0)] == [70_000]
    assert node.files.readings == 0, "the sweep is slow"


def test_a_round_with_nothing_to_do_is_followed_by_a_long_pause(node: PacedNode) -> None:
    """It may be ended; not so the one in which more writes are awaited."""
    node.quiet()
    assert node.reader.round(lambda: False) == file_reader.IDLE_S
    assert node.reader.rests

    node.written = frozenset({"/pods/one/db"})
    assert node.reader.round(lambda: False) == file_reader.LOOK_S
    assert not node.reader.rests
    node.written = frozenset()
    assert node.reader.round(lambda: False) == file_reader.IDLE_S, "read, and nothing owed"
    assert node.seen == ["/pods/one/db"]


def test_no_pause_goes_beyond_what_is_due(node: PacedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done once a second; all files where not every write is heard of."""
    node.quiet()
    monkeypatch.setattr(file_reader, "IDLE_S", 1e3)
    node.reader._often.period_s = 200.0
    apart_s = file_reader.PERIOD_S * file_reader.APART
    assert 100 < node.reader.round(lambda: False) <= 200 + apart_s
    node.written = None
    node.reader._sweep.period_s = 50.0
    node.reader._sweep.last_s = time.monotonic()
    assert 10 < node.reader.round(lambda: False) <= 50 + apart_s


def test_what_is_about_to_be_due_is_done_in_the_round_that_is_asked_for(node: PacedNode) -> None:
    """The listener and the reader look at the clock at moments of their own: it must not slip to the next second."""
    node.quiet()
    node.reader._often.period_s, node.reader._apart_s = 1e5, 1e5 * file_reader.APART
    node.reader._often.last_s = time.monotonic() - 1e5 + 1e4
    for beaten in (False, True):
        node.seen.clear()
        node.reader.beaten = beaten
        node.reader.round(lambda: False)
        assert node.seen == (["/pods"] if beaten else [])
    assert not node.reader.beaten


def test_what_is_done_once_a_second_is_done_in_one_round(node: PacedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those above are read and cgroups compared together, however a sweep or a write has come between."""
    verified: list[int] = []
    monkeypatch.setattr(node.reader, "_verify", lambda *_, counts: verified.append(len(node.seen)))
    node.quiet()
    node.reader._often.period_s = 1e-3
    node.misses_none = False
    node.due()
    for _ in range(3):
        time.sleep(2e-3)
        node.seen.clear()
        node.reader.round(lambda: False)
        assert node.seen == ["/pods"]
    assert verified == [1, 1, 1]


def test_where_nothing_was_written_files_are_known_until_now(node: PacedNode) -> None:
    """Where something was, until the moment before: it is read in the next round."""
    node.quiet()
    known: list[int] = []
    node.files.looked = known.append  # type: ignore[method-assign]
    for heard_ns, written in ((10, ()), (20, ("/pods/one/db",)), (30, ()), (40, ())):
        node.observer.ledger.heard_ns, node.written = heard_ns, frozenset(written)
        node.reader.round(lambda: False)
    assert known == [10, 10, 30, 40]
