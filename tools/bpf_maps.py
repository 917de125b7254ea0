"""What the header comments of the BPF sources say of their maps, for the table in ``probes/README.md``.

A comment is read as text: nothing here needs a probe. ``tests/unit/probes/test_bpf_headers.py`` holds that every map
that a source defines is described.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ENTRY = re.compile(r" \*   (\w+(?:, \w+)*) +(.*)")
_TABLE = re.compile(
    r"(?:(?P<kind>[^:]+): )?key (?P<key>.+?), value (?P<value>.+?), "
    r"(?P<size>[^,;.]*entr(?:y|ies)[^;.]*)[;.] (?P<full>.+)"
)
_RING = re.compile(r"ring of (?P<size>\w+ pages): (?P<value>[^.]+)\. (?P<full>.+)")


class MapRow(NamedTuple):
    """One map: its kind and key (a ring has none), value, size, and what happens when it is full."""

    kind: str
    key: str
    value: str
    size: str
    full: str


def described(text: str) -> dict[str, str]:
    """Return what the header comment of a source says of each map; empty: it has none."""
    comment = text[text.index("/*\n") : text.index("\n */")]
    _, _, table = comment.partition(" * Maps:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in table.splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        else:
            found |= {name: found[name] + " " + line.lstrip(" *") for name in names}
    return found


def map_row(text: str) -> MapRow:
    """Split what a comment says of one map.

    :raises ValueError: it does not say key, value, size and what happens when it is full.
    """
    ring = _RING.fullmatch(text)
    if ring is not None:
        return MapRow("ring", "", ring["value"], ring["size"], _full(ring["full"]))
    found = _TABLE.fullmatch(text)
    if found is None:
        raise ValueError(f"not key, value, size, and what happens when it is full: {text!r}")
    return MapRow(found["kind"] or "array", found["key"], found["value"], found["size"], _full(found["full"]))


def _full(text: str) -> str:
    return text.removeprefix("Full: ").rstrip(".")
