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
from probes.cgroups.file_reader import FileReader
from probes.cgroups.files import Files
from probes.cgroups.known_files import KnownFiles
from probes.cgroups.pace import Pace
from probes.cgroups.watched_tree import WatchedTree
from probes.options import ObserveOptions
from probes.subjects import Subject
from probes.switches.ledger import Ledger
from probes.window import Window
from probes.windows import Windows
from toolkit.host.cgroupfs import Hierarchy, Mode
from toolkit.host.kept_files import NONE_KEPT
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet

FILES_OF = {"cpuset.cpus": "0-1", "cpuset.cpus.effective": "0-1", "cpu.max": "50000 100000"}
CLAIMS = ("/pods/one/db", "/pods/two/web")
ALL = (*CLAIMS, "/pods/one", "/pods/two", "/pods")


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
    """Who asks for every minute gets that."""
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


class _Node:
    """Two claims in a tree of files, and who reads them. A sweep comes never, once it is known what it costs."""

    closed = False

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(file_reader, "SHARE", 1e-12)
        monkeypatch.setattr(file_reader, "LONGEST_S", 1e6)
        (root / "cgroup.controllers").write_text("cpuset cpu\n")
        for cgroup in ALL:
            (root / cgroup[1:]).mkdir(parents=True, exist_ok=True)
            for name, text in FILES_OF.items():
                (root / cgroup[1:] / name).write_text(text + "\n")
        self.root, self.seen = root, list[str]()
        self.windows = Windows(ClaimSet(claims=()), root, Ledger(root, ObserveOptions(), ()), None)
        self.windows.hierarchy = Hierarchy(root=root, mode=Mode.V2, unified=root)
        self.windows.window = cast("Window", self)
        for slot, cgroup in enumerate(CLAIMS):
            self.claim(cgroup, slot)
        known = KnownFiles(self.windows.hierarchy, NONE_KEPT)
        self.files = ControlFiles(known, {one: known.read(one) for one in ALL}, time.monotonic_ns())
        self.written: frozenset[str] | None = frozenset()
        self.reader = FileReader(
            self.windows, lambda _window: self.files, known.forget, lambda: self.written, period_s=1e-3
        )
        self.until(lambda: self.files.readings >= 2)
        monkeypatch.setattr(self.files, "look", self.look(self.files.look))

    def claim(self, cgroup: str, slot: int) -> None:
        claim = Claim(name=cgroup, cgroup=cgroup, cpus=CpuSet.of([0]))
        self.windows.subjects[cgroup] = Subject(
            claim=claim, cgroup_id=7, slot=slot, ident=slot, cpus=CpuSet.of([0]), since_ns=0, reported=True
        )

    def look(self, real: Any) -> Any:
        def looks(cgroup: str) -> None:
            self.seen.append(cgroup)
            real(cgroup)

        return looks

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < deadline
            self.reader.round(lambda: False)

    def quiet(self) -> None:
        """Let nothing be new any more, and nothing above be due."""
        self.reader._fresh = {}
        self.reader._above.period_s = 1e6
        self.seen.clear()

    def again(self, subject: Subject) -> None:
        """Counters: none here."""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Node:
    return _Node(tmp_path, monkeypatch)


def test_what_was_written_to_is_read_at_once(node: _Node) -> None:
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


def test_the_edge_of_a_window_is_a_sweep(node: _Node) -> None:
    """All files were read there: the next sweep comes a pause later, not at once because the last one is long ago."""
    node.quiet()
    node.reader._sweep.last_s -= 2 * file_reader.LONGEST_S
    node.windows.window = cast("Window", SimpleNamespace(closed=False, again=node.again))
    node.reader.round(lambda: False)
    assert node.files.readings == 2
    node.reader._sweep.last_s -= 2 * file_reader.LONGEST_S
    node.reader.round(lambda: False)
    assert node.files.readings == 3


def test_a_set_that_changes_above_is_looked_for_below(node: _Node) -> None:
    """Nobody wrote to the two below: the kernel narrowed what is granted to them."""
    node.quiet()
    for cgroup in ("pods", "pods/one", "pods/one/db"):
        (node.root / cgroup / "cpuset.cpus.effective").write_text("0\n")
    node.reader._above.period_s = 1e-3
    node.until(lambda: len(node.files.changes(0)) == 3)
    assert node.seen[0] == "/pods"
    assert set(ALL) <= set(node.seen)


def test_a_new_cgroup_is_read_as_often_as_was_asked_for(node: _Node) -> None:
    """All its directories may not be watched yet; so are those above it."""
    node.quiet()
    node.windows.subjects[CLAIMS[1]] = replace(node.windows.subjects[CLAIMS[1]], cgroup_id=8)
    node.reader._above.period_s = 1e-3
    node.until(lambda: node.seen.count("/pods/two/web") > 2)
    assert "/pods/one/db" not in node.seen
    assert "/pods/two" in node.seen


def test_where_not_every_write_is_reported_all_are_read_as_before(node: _Node) -> None:
    """Whatever that costs: a value may be put back before the next sweep."""
    node.written = None
    node.until(lambda: node.files.readings >= 6)


def test_what_was_heard_while_nobody_listened_is_no_word(node: _Node) -> None:
    """After a flood the first round knows of no moment until which every write was heard."""
    node.quiet()
    node.windows.ledger.heard_ns = time.monotonic_ns()
    node.written = None
    node.reader._sweep.period_s = 1e6
    node.reader.round(lambda: False)
    assert node.reader._heard == (0, frozenset())


def test_what_was_written_between_two_windows_is_read_in_the_next(node: _Node) -> None:
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


def test_without_the_witness_of_writes_no_write_is_known(node: _Node) -> None:
    """An observer may be composed without it."""
    assert Files(node.windows)._written() is None


@pytest.mark.parametrize("turned", ["while it is read", "before it is known"])
def test_what_is_read_while_a_window_turns_over_is_read_again(node: _Node, turned: str) -> None:
    """Written after the edge had read it: the next window begins with the old value, and sees the new one at once.

    By its next sweep somebody may have put the old one back.
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
        node.windows.window = cast("Window", SimpleNamespace(closed=False, again=node.again))

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


def test_a_round_with_nothing_to_do_is_followed_by_a_long_pause(node: _Node) -> None:
    """It may be ended; not so the one in which more writes are awaited."""
    node.quiet()
    node.reader._claims.period_s = 1e6
    assert node.reader.round(lambda: False) == file_reader.IDLE_S
    assert node.reader.rests

    node.written = frozenset({"/pods/one/db"})
    assert node.reader.round(lambda: False) == file_reader.LOOK_S
    assert not node.reader.rests
    node.written = frozenset()
    assert node.reader.round(lambda: False) == file_reader.IDLE_S, "read, and nothing owed"
    assert node.seen == ["/pods/one/db"]


def test_no_pause_goes_beyond_what_is_due(node: _Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those above once a second; all of them where not every write is heard of."""
    node.quiet()
    node.reader._claims.period_s = node.reader._above.period_s = 1e6
    monkeypatch.setattr(file_reader, "IDLE_S", 1e3)
    node.reader._above.period_s = 200.0
    assert 100 < node.reader.round(lambda: False) <= 200
    node.written = None
    node.reader._sweep.period_s = 50.0
    node.reader._sweep.last_s = time.monotonic()
    assert 10 < node.reader.round(lambda: False) <= 50


def test_where_nothing_was_written_files_are_known_until_now(node: _Node) -> None:
    """Where something was, until the moment before: it is read in the next round."""
    node.quiet()
    known: list[int] = []
    node.files.looked = known.append  # type: ignore[method-assign]
    for heard_ns, written in ((10, ()), (20, ("/pods/one/db",)), (30, ()), (40, ())):
        node.windows.ledger.heard_ns, node.written = heard_ns, frozenset(written)
        node.reader.round(lambda: False)
    assert known == [10, 10, 30, 40]
