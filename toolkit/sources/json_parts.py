"""Careful looks into JSON of unknown make: a value of another type than expected is as good as absent."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.text import json_text
from toolkit.text.wording import kind_of

MAX_INT_DIGITS = 19


def load(data: bytes, where: str) -> Any:
    """Read JSON; a file that a kubelet writes and reads again is for :func:`load_state`.

    :raises InputError: it is none, or has a key twice or a number that is too large.
    """
    try:
        return json_text.load(data.decode("utf-8", "replace"), where, MAX_INT_DIGITS)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"not JSON: {str(error)[:80]}") from None


def load_state(data: str, where: str) -> Any:
    """Read JSON of a kubelet's own file as the kubelet reads it: of a key that comes twice the last value.

    :raises InputError: it is none.
    """
    try:
        return json_text.load_as_go(data)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"not JSON: {str(error)[:80]}") from None


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping, or an empty one."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def entries(value: object, where: str) -> list[dict[str, Any]]:
    """Return a list of mappings; of one that is absent, which JSON of protocol buffers leaves out, an empty one.

    :raises InputError: it is no list, or holds something else: what it says then is not known.
    """
    if value is not None and not isinstance(value, list):
        raise InputError(where, kind_of(value), "a list")
    for item in value or ():
        if not isinstance(item, dict):
            raise InputError(where, f"{kind_of(item)} in it", "mappings")
    return [mapping(item) for item in value or ()]


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


@lru_cache(4096)
def parsed(cpus: str) -> CpuSet | None:
    """Read a list text, of CPUs or of memory nodes; ``None``: it is nonsense. Ten thousand threads have few of them."""
    try:
        return CpuSet.parse(cpus)
    except InputError:
        return None
