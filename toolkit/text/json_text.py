"""JSON text that every reader reads alike: no key twice in an object, no number that is infinite or none.

RFC 8259 §4 leaves a key that comes twice to the reader: most take the last value, some the first, and people the one
that they see. Go's reader takes the last; :func:`load_as_go` reads so, for what a kubelet reads.
Source: RFC 8259 §4 and §6; Go's ``encoding/json``, ``Unmarshal``; Python's ``json``, "Infinite and NaN Number Values".
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any, NoReturn

import pydantic_core

from toolkit.errors import InputError

MAX_DIGITS = 77
"""Digits of 256 bits: no count, time or size has more, and arithmetic with floats ends beyond some 300."""
_ALIKE = bytes.maketrans(b"123456789", b"0" * 9)
_LONG = b"0" * (MAX_DIGITS + 1)
_PIECE = 1 << 17
_SHOWN = 40


class NotJsonError(InputError):
    """The text is no JSON at all."""


class _AmbiguousError(Exception):
    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found)
        self.found, self.expected = found, expected


def check(content: bytes | str, where: str) -> None:
    """Refuse ambiguous JSON, for a reader that does not look.

    :raises InputError: a key twice, or a number that is not finite or of more than :data:`MAX_DIGITS` digits.
    :raises NotJsonError: no JSON.
    """
    try:
        text, data = (content.decode(), content) if isinstance(content, bytes) else (content, content.encode())
        parse_int = _whole if has_long(data) else None
        # What is read is thrown away: the evidence of hundreds of claims is not held twice.
        json.loads(text, object_pairs_hook=_forget, parse_float=_finite, parse_int=parse_int, parse_constant=_no_number)
    except _AmbiguousError as problem:
        raise InputError(where, problem.found, problem.expected) from None
    except (ValueError, RecursionError) as error:
        raise NotJsonError(where, f"not JSON: {str(error)[:80]}") from None


def has_long(content: bytes) -> bool:
    """Say whether there are more than :data:`MAX_DIGITS` digits one after the other, in a number or in a string.

    A regular expression looks ten times as long through the evidence of hundreds of claims.
    """
    # Piece by piece: a copy of megabytes costs more than looking through it.
    ends = range(0, len(content), _PIECE)
    return any(_LONG in content[end : end + _PIECE + MAX_DIGITS].translate(_ALIKE) for end in ends)


def says_itself(content: bytes, data: object, indent: int | None) -> bool:
    """Say whether a text is what its own value is written as: then every reader reads it alike.

    A key that comes twice is once in the value, and what is no finite number is written otherwise. ``False`` says
    nothing: the text may have been written by another.

    :param data: what the text was read as.
    """
    text = _written(data, indent)
    return content.startswith(text) and not content[len(text) :].strip(b"\n") and not has_long(content)


def _written(data: object, indent: int | None) -> bytes:
    return pydantic_core.to_json(data, indent=indent, inf_nan_mode="null")


def load(text: str, where: str, digits: int = MAX_DIGITS) -> Any:
    """Read JSON that is not ambiguous. :param digits: as many as a whole number may have.

    :raises InputError: as :func:`check`. :raises ValueError, RecursionError: it is no JSON.
    """
    parse_int = partial(_whole, digits=digits)
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_float=_finite, parse_int=parse_int, parse_constant=_no_number
        )
    except _AmbiguousError as problem:
        raise InputError(where, problem.found, problem.expected) from None


def load_as_go(text: str) -> Any:
    """Read JSON as Go reads it into a struct of maps: of a key that comes twice the last value.

    A map that comes twice in the outermost object gains the second one's keys, as Go decodes into a map that exists.

    :raises ValueError, RecursionError: it is no JSON.
    """
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outermost[:] = pairs  # The outermost object is the last one that ends.
        return dict(pairs)

    data = json.loads(text, object_pairs_hook=keep)
    if not isinstance(data, dict):
        return data
    found: dict[str, Any] = {}
    for key, value in outermost:
        before = found.get(key)
        found[key] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def _forget(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1:
        _once(pairs)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _once(pairs)
    return found


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _AmbiguousError(f"key {key[:_SHOWN]!r} twice in one object", "every key once")
        seen.add(key)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _no_number(text)
    return value


def _whole(text: str, digits: int = MAX_DIGITS) -> int:
    if len(text.lstrip("-")) > digits:
        _no_number(text, digits)
    return int(text)


def _no_number(text: str, digits: int = MAX_DIGITS) -> NoReturn:
    cut = "…" if len(text) > _SHOWN else ""
    raise _AmbiguousError(f"the number {text[:_SHOWN]}{cut}", f"a finite number of at most {digits} digits")
