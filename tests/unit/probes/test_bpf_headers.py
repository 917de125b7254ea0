"""Every BPF source says what its maps hold and what happens when they are full, and under which licence it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def described(text: str) -> dict[str, str]:
    """Return what the header comment says of each map."""
    comment = text[text.index("/*\n") : text.index("\n */")]
    _, _, table = comment.partition(" * Maps:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in table.splitlines():
        entry = re.match(r" \*   ((?:\w+)(?:, \w+)*)  +(.*)", line)
        if entry is not None and not line.startswith(" *    "):
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        else:
            found |= {name: found[name] + " " + line.lstrip(" *") for name in names}
    return found


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
        assert "ring of " in row or ("key " in row and "value " in row and re.search(r"entr(y|ies)", row)), name
        assert re.search(r"[Ff]ull|error|Deeper", row), name
