"""Careful looks into JSON of unknown make: a value of another type than expected is as good as absent."""

from __future__ import annotations

import json
from typing import Any

from toolkit.errors import InputError

MAX_INT_DIGITS = 19


def load(data: bytes, where: str) -> Any:
    """Read JSON.

    :raises InputError: it is none.
    """
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_int=_number)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"not JSON: {str(error)[:80]}") from None


def _number(text: str) -> int:
    if len(text) > MAX_INT_DIGITS + 1:
        raise ValueError("a number that is too large")
    return int(text)


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping, or an empty one."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text without lone surrogates, or an empty one."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def number(value: object) -> int | None:
    """Return an integer, also of the text that JSON of protocol buffers makes of 64-bit numbers; else ``None``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if isinstance(value, str) and value.isascii() and value.lstrip("-").isdigit() and len(value) <= MAX_INT_DIGITS:
        try:
            return int(value)
        except ValueError:
            return None
    return None


def texts(value: object) -> dict[str, str]:
    """Return a mapping of texts, without what is none."""
    return {text(key): text(item) for key, item in mapping(value).items() if isinstance(item, str)}
