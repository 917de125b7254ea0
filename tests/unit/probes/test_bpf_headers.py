"""Every BPF source says what its maps hold and what happens when they are full, and under which licence it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.bpf_maps import described, map_row

PROBES = Path(__file__).resolve().parents[3] / "probes"
SOURCES = sorted(path for path in (*PROBES.glob("*/*.bpf.c"), *PROBES.glob("*/*.h")))
_MAPS = (
    re.compile(r"^BPF_(?:PERCPU_)?ARRAY\((\w+),", re.MULTILINE),
    re.compile(r"^BPF_RINGBUF_OUTPUT\((\w+),", re.MULTILINE),
    re.compile(r"^BPF_TABLE\([^,]+,[^,]+,[^,]+, (\w+),", re.MULTILINE),
)


def maps(text: str) -> set[str]:
    """Return the names of the maps that a source defines."""
    return {name for pattern in _MAPS for name in pattern.findall(text)}


def test_the_sources_are_found() -> None:
    """Most maps are the switch ledger's; a pattern that finds none would hold nothing."""
    everything = [name for path in SOURCES for name in maps(path.read_text())]

    assert {"rows", "events", "irqs", "actions", "claimed_paths"} <= set(everything)
    assert len(everything) == len(re.findall(r"^BPF_\w+\(", "".join(p.read_text() for p in SOURCES), re.MULTILINE))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_every_map_is_described(path: Path) -> None:
    """By key (a ring has none), value, size, and what happens when it is full."""
    text = path.read_text()
    rows = described(text)

    assert text.startswith("/* SPDX-License-Identifier: Apache-2.0 */\n/*\n * " + path.name + " - ")
    assert rows.keys() == maps(text)
    for name, row in rows.items():
        assert map_row(row).full, name
        assert re.search(r"[Ff]ull|error|Deeper", row), name


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("key 0, value u64, 1 entry; cannot be full.", ("array", "0", "u64", "1 entry", "cannot be full")),
        (
            "hash: key id (u64), value struct x, MAX entries (two, and two). Full: it is counted.",
            ("hash", "id (u64)", "struct x", "MAX entries (two, and two)", "it is counted"),
        ),
        ("ring of 16 pages: struct a, struct b. Full: lost.", ("ring", "", "struct a, struct b", "16 pages", "lost")),
    ],
)
def test_a_description_has_five_parts(text: str, row: tuple[str, ...]) -> None:
    """They are the cells of the table in the README."""
    assert map_row(text) == row


def test_a_description_that_lacks_a_part_is_refused() -> None:
    """A table with a hole would say nothing about that map."""
    with pytest.raises(ValueError, match="when it is full"):
        map_row("hash: key id, value struct x, MAX entries")
