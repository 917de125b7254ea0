"""A sweep through all control files: how often, and through which of them where every write is known."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.cgroups.control_files import ControlFiles
from probes.cgroups.files import Files
from probes.window import Window
from probes.writes.witness import WriteWitness
from tests.unit.probes.paced_node import ALL, PacedNode
from toolkit.host.kept_files import NONE_KEPT


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PacedNode:
    return PacedNode(tmp_path, monkeypatch)


def test_a_slow_sweep_reads_what_changes_without_a_write(node: PacedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of sets: a limit changes by a write alone, and every write is known. The edge was read before it."""
    node.quiet()
    files = ControlFiles(node.files._known, {one: node.files._known.read(one) for one in ALL}, time.monotonic_ns())
    node.files, names, real = files, list[str](), NONE_KEPT.read
    node.reader._window = None
    node.reader.round(lambda: False)
    monkeypatch.setattr(
        NONE_KEPT, "read", lambda folder, asked, *more: (names.extend(asked), real(folder, asked, *more))[1]
    )
    (node.root / "pods/one/db/cpuset.cpus.effective").write_text("0\n")
    node.due()
    node.reader.round(lambda: False)
    assert [(row.cgroup, str(row.cpus_effective)) for row in files.changes(0)] == [("/pods/one/db", "0")]
    assert names.count("cpu.max") == 2, "of the one that differs: before and after its values are read"
    names.clear()
    node.due()
    node.reader.round(lambda: False)
    assert files.readings == 2
    assert len(names) == 4 * len(ALL)
    assert all(name.startswith("cpuset.") for name in names)


def test_what_was_written_to_is_read_beside_a_slow_sweep(node: PacedNode) -> None:
    """Whose time may come in the very round in which that is due."""
    node.quiet()
    (node.root / "pods/one/db/cpu.max").write_text("70000 100000\n")
    node.written = frozenset({"/pods/one/db"})
    node.reader.round(lambda: False)
    node.written = frozenset()
    node.due()
    node.reader.round(lambda: False)
    assert node.seen == ["/pods/one/db"]
    assert [row.quota_us for row in node.files.changes(0)] == [70_000]
    assert node.files.readings == 3


def test_the_edge_of_a_window_is_a_sweep(node: PacedNode) -> None:
    """All files were read there: the next sweep comes a pause later, not at once because the last one is long ago."""
    node.quiet()
    node.due()
    node.observer.window = cast("Window", SimpleNamespace(closed=False, again=node.again))
    node.reader.round(lambda: False)
    assert node.files.readings == 2
    node.due()
    node.reader.round(lambda: False)
    assert node.files.readings == 3


def test_a_set_that_changes_above_is_looked_for_below(node: PacedNode) -> None:
    """Nothing wrote to the two below: the kernel narrowed what is granted to them."""
    node.quiet()
    for cgroup in ("pods", "pods/one", "pods/one/db"):
        (node.root / cgroup / "cpuset.cpus.effective").write_text("0\n")
    node.reader._often.period_s = 1e-3
    node.until(lambda: len(node.files.changes(0)) == 3)
    assert node.seen[0] == "/pods"
    assert set(ALL) <= set(node.seen)


def test_where_not_every_write_is_reported_all_are_read_as_before(node: PacedNode) -> None:
    """Whatever that costs: a value may be put back before the next sweep."""
    node.written = None
    node.until(lambda: node.files.readings >= 6)


def test_what_stood_at_the_edge_is_compared_not_what_was_read_since(node: PacedNode) -> None:
    """The window before has read it again, after the edge: the new window has not got that, and is still to read it."""
    known = node.files._known
    edge = {one: known.read(one) for one in ALL}
    (node.root / "pods/one/db/cpu.max").write_text("70000 100000\n")
    known.read("/pods/one/db")
    files = ControlFiles(known, edge, time.monotonic_ns())
    files.read(ALL, rare=True, sets_only=True)
    files.look("/pods/one/db")
    assert [row.quota_us for row in files.changes(0)] == [70_000]


def test_cgroups_that_were_renamed_are_looked_for_once_in_a_window(
    node: PacedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a look at each directory of the v1 hierarchies."""
    renewed: list[int] = []
    known = node.files._known
    monkeypatch.setattr(known, "renew", lambda: renewed.append(1))
    node.files = ControlFiles(known, {one: known.read(one) for one in ALL}, time.monotonic_ns())
    node.quiet()
    for misses_none in (True, False, True):
        node.misses_none = misses_none
        node.due()
        node.reader.round(lambda: False)
    assert renewed == [1]
    node.files.read(ALL)
    assert renewed == [1, 1], "where readings are frequent, each time"


def test_where_a_write_may_be_missed_a_sweep_is_through_all(node: PacedNode) -> None:
    """Of one that no notice was given of: inotify has none of Linux AIO."""
    node.quiet()
    node.misses_none = False
    (node.root / "pods/one/db/cpu.max").write_text("70000 100000\n")
    node.due()
    node.reader.round(lambda: False)
    assert [row.quota_us for row in node.files.changes(0)] == [70_000]


def test_a_sweep_through_some_files_is_paced_as_one_through_all(
    node: PacedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would seem cheap enough to be done once a second, and then be one through all again."""
    node.quiet()
    monkeypatch.setattr(time, "thread_time", itertools.count().__next__)
    node.due()
    node.reader.round(lambda: False)
    assert node.reader._sweep.costs_s[1] == 2.0


@pytest.mark.parametrize("notices", [None, object()], ids=["program", "inotify"])
def test_the_witness_of_files_asks_that_of_writes_when_both_are_there(node: PacedNode, notices: object) -> None:
    """The witnesses of an observer begin one after the other: the one of files before the one of writes."""
    files = Files(node.observer)
    with files.running():
        writes = object.__new__(WriteWitness)
        writes.notices = cast("Any", notices)
        node.observer.witnesses = cast("Any", (files, writes))
        assert files._reader is not None
        assert files._reader._misses_none() == (notices is None)
