"""A saved run from which a claim was taken out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def take_out(run: Path, stage: str, name: str) -> None:
    """Remove whatever is about a claim from a stage's file, as far as it is a list's item."""
    path = run / f"{stage}.json"
    text = json.dumps(_without(json.loads(path.read_text()), name))
    path.write_text(text)


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, name) for item in value if not _about(item, name)]
    return value


def _about(item: Any, name: str) -> bool:
    return isinstance(item, dict) and name in (item.get("claim"), item.get("name"), item.get("subject"))
