"""What real components decided and wrote, recorded once and kept in ``tests/data``: see its README files."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
DECISIONS = {path.name.removesuffix(".json.xz"): path for path in sorted((DATA / "vectors").glob("*.json.xz"))}
"""Area -> the decisions of a kubelet's resource managers, in the form of ``docs/simulate-format.md``."""
CAPTURES = sorted((DATA / "captures").glob("*.tar.gz"))
"""Moments of real nodes, named by run and moment."""


def decisions(area: str) -> dict[str, Any]:
    """Return a file of recorded decisions."""
    data = json.loads(lzma.decompress(DECISIONS[area].read_bytes()))
    assert isinstance(data, dict)
    return data


def unpacked(area: str, folder: Path) -> Path:
    """Write a file of recorded decisions as ``pinproof simulate`` reads it."""
    path = folder / f"{area}.json"
    path.write_bytes(lzma.decompress(DECISIONS[area].read_bytes()))
    return path
