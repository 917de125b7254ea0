"""A stage as text that this process has written: what its file will hold, and what is read back before it is judged.

In pieces, and as bytes: the evidence of hundreds of claims is megabytes, and each copy of it costs milliseconds.
Source: docs/principles.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import pydantic_core

from toolkit.model.serde import read_back, to_bytes
from toolkit.text import json_text

T = TypeVar("T")
INDENT = 1
"""Of each level, where people may read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageText:
    """A JSON object whose first key is the schema. Made by :func:`written`.

    :param schema: ``pinproof.<stage>/N``.
    :param body: the value as JSON, UTF-8, by itself; a result has the schema among its fields.
    """

    schema: str
    body: bytes

    def __len__(self) -> int:
        """Return how many bytes its file has."""
        return sum(map(len, self.pieces()))

    def __bytes__(self) -> bytes:
        """Return what its file holds, in one piece."""
        return b"".join(self.pieces())

    def pieces(self) -> tuple[bytes | memoryview, ...]:
        """Return what its file holds, in the order in which it is written."""
        head = pydantic_core.to_json({"schema": self.schema}, indent=indent_of(self.body))[:-1].rstrip(b"\n")
        if self.body.startswith(head):
            return self.body, b"\n"
        return head, b",", memoryview(self.body)[1:], b"\n"

    def read(self, kind: type[T]) -> T | None:
        """Return the value that was read back; ``None``: a reader of its file would refuse it.

        Whether a key is in it twice need not be looked for, as in a stranger's text: it is what a value was written as.
        """
        return None if json_text.has_long(self.body) else read_back(kind, self.body)


def written(value: object, schema: str, *, lines: bool = True) -> StageText:
    """Write a stage value.

    :param lines: each key on a line of its own, which costs half as much time again, and a fifth of the bytes.
    """
    return StageText(schema=schema, body=to_bytes(value, INDENT if lines else None))


def indent_of(text: bytes) -> int | None:
    """Return how an object was written: :data:`INDENT`, or on one line."""
    return INDENT if text[1:2] == b"\n" else None
