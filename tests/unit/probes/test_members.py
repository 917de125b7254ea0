"""Records of members: when the table is counted, and whose are forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from probes.bpfsys import Map
from probes.switches.members import Dead

LIMIT = 100


class Table:
    """A map, and how often it was walked through."""

    def __init__(self, *tids: int) -> None:
        self.tids, self.counted = set(tids), 0

    def count(self) -> int:
        self.counted += 1
        return len(self.tids)

    def keys(self) -> list[bytes]:
        return [tid.to_bytes(4, "little") for tid in self.tids]

    def delete(self, key: bytes) -> None:
        self.tids.remove(int.from_bytes(key, "little"))


class Node:
    """Its tasks; those that are there live."""

    def __init__(self, root: Path) -> None:
        self.root, self.dead = root, Dead(LIMIT, root)
        (root / "proc").mkdir()

    def tasks(self, made: int, *tids: int) -> None:
        """Let so many have been made since boot, of which these are there."""
        (self.root / "proc/stat").write_text(f"cpu  1 2\nctxt 5\nprocesses {made}\nprocs_running 1\n")
        (self.root / "proc/loadavg").write_text(f"0.1 0.2 0.3 1/{len(tids)} 4711\n")
        for tid in tids:
            (self.root / f"proc/{tid}").mkdir(exist_ok=True)
            (self.root / f"proc/{tid}/stat").write_text(f"{tid} (db) S " + "0 " * 18 + "77 0\n")

    def drop(self, *tables: Table) -> None:
        self.dead.drop(cast("tuple[Map, ...]", tables))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_table_is_counted_when_it_can_be_half_full(node: Node) -> None:
    """Ten are in it, five live beside them: until 35 were made there cannot be 50. Of several the fullest counts."""
    table, other = Table(*range(1, 11)), Table(1)
    node.tasks(1000, *range(1, 6))
    node.drop(table, other)
    node.tasks(1034, *range(1, 6))
    node.drop(table, other)
    assert (table.counted, other.counted) == (1, 1)
    node.tasks(1035, *range(1, 6))
    node.drop(table, other)
    assert (table.counted, other.counted) == (2, 2)


def test_the_dead_are_forgotten_in_a_table_that_is_half_full(node: Node) -> None:
    """Not in one that is not; and it is looked at again each time as long as so many live."""
    full, other = Table(*range(1, 51)), Table(1, 99)
    node.tasks(1000, *range(1, 46))
    node.drop(full, other)
    assert (full.tids, other.tids) == (set(range(1, 46)), {1, 99})
    node.drop(full, other)
    assert full.counted == 2


def test_where_it_is_not_known_how_many_were_made_it_is_counted_each_time(node: Node) -> None:
    """It may be half full at any time."""
    table = Table(1)
    node.drop(table)
    node.tasks(1000, 1)
    node.drop(table)
    node.drop(table)
    assert table.counted == 2
