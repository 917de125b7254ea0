"""What ``pinproof watch --json`` prints: a document a line, the last of which is the result of all windows."""

from __future__ import annotations

import json
from typing import Any


def documents(text: str | bytes) -> list[dict[str, Any]]:
    """Return all of them in their order: events, windows, and that of all windows where there are several."""
    lines = (text.decode() if isinstance(text, bytes) else text).split("\n")
    return [json.loads(line) for line in lines if line]


def result_in(text: str | bytes) -> dict[str, Any]:
    """Return the last one, which is the result."""
    return documents(text)[-1]
