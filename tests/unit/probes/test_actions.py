"""Rows of moves and affinity changes from their records."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from probes.actions.decoder import affinity_row, move_row
from probes.actions.reader import Actions, read_hierarchies
from probes.actions.records import Affinity, Move
from probes.programs import Programs
from toolkit.model.cpuset import CpuSet

NAMES = {4: "db", 5: "web"}


def test_move_names_claims_hierarchy_and_writer() -> None:
    """Idents become claims, the number of a v1 hierarchy its controllers, unknown ones stay numbers."""
    data = struct.pack(
        "=2IQ10I16s16s128s", 0, 1, 150, 11, 10, 21, 20, 4, 5, 7, 1, 0, 0, b"systemd", b"pg", b"/kubepods/web"
    )
    event = Move.decode(data)
    row = move_row(event, NAMES, {0: "v2", 7: "cpuset"}, 100)

    assert (row.at_ns, row.tid, row.comm, row.whole_process) == (50, 21, "pg", True)
    assert (row.from_claim, row.to_claim, row.hierarchy, row.cgroup) == ("db", "web", "cpuset", "/kubepods/web")
    assert (row.writer_tid, row.writer_comm) == (11, "systemd")
    assert move_row(event, {}, {}, 100).hierarchy == "hierarchy 7"
    assert move_row(event, {}, {}, 100).from_claim == ""


def test_affinity_carries_mask_and_answer() -> None:
    """The mask is a bitmap of 1,024 CPUs; what the kernel refused has an errno."""
    mask = (1 << 0 | 1 << 64 | 1 << 1023).to_bytes(128, "little")
    data = struct.pack("=2IQ5Ii16s128s", 1, 1, 150, 11, 10, 5, 21, 4, -22, b"taskset", mask)
    row = affinity_row(Affinity.decode(data), NAMES, 100)

    assert (row.at_ns, row.tid, row.claim, row.errno) == (50, 21, "db", 22)
    assert (row.caller_tid, row.caller_comm, row.caller_claim) == (11, "taskset", "web")
    assert row.cpus == CpuSet.of([0, 64, 1023])


def test_hierarchies_are_named_by_their_controllers(tmp_path: Path) -> None:
    """Number, controllers, path; the controllers of a named hierarchy contain its name; v2 is number 0."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("12:cpu,cpuacct:/\n3:name=systemd:/a:b\n0::/\n")

    assert read_hierarchies(tmp_path) == {12: "cpu,cpuacct", 3: "name=systemd", 0: "v2"}


class _Late(list[Move]):
    """Records that a thread goes through: when it is done, and before it has put them away, one more is heard."""

    def __init__(self, events: Iterable[Move], actions: Actions) -> None:
        super().__init__(events)
        self.listener = threading.Thread(target=actions.hear, args=(moved(8),))

    def __iter__(self) -> Iterator[Move]:
        yield from super().__iter__()
        self.listener.start()
        self.listener.join(0.05)


def moved(window: int) -> bytes:
    """Return a record of a move in a window."""
    return struct.pack("=2IQ10I16s16s128s", 0, window, 150, 11, 10, 21, 20, 4, 5, 7, 1, 0, 0, b"systemd", b"pg", b"/x")


def test_what_is_heard_while_old_windows_are_dropped_is_kept() -> None:
    """The listener adds to what another thread cuts."""
    actions = Actions(cast("Programs", SimpleNamespace(table=lambda *_args, **_kind: None)))
    actions._moves = late = _Late([Move.decode(moved(7)), Move.decode(moved(8))], actions)
    actions.drop_old(8)
    late.listener.join()
    assert [event.window for event in actions.moves(8)] == [8, 8]
    assert actions.moves(7) == ()
