"""Text of stage values: the schema in front, the end behind, printable, and few copies of megabytes."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass

import pytest

from toolkit.model.serde import stage_value, to_json


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A stage value of one text."""

    words: str


@pytest.mark.parametrize("words", ["plain", "ä", "\x7f", "\x00\x1b[2J", "\u2028 \u202e", "a\tb\nc"])
@pytest.mark.parametrize("indent", [None, 2])
def test_text_is_printable_and_means_the_same(words: str, indent: int | None) -> None:
    """Whatever is in it: nothing that a terminal takes for a command, or a reader for a line's end."""
    text = to_json(Words(words=words), indent=indent, end="\n")
    assert text.endswith("}\n")
    assert json.loads(text) == {"words": words}
    assert all(char.isprintable() or char == "\n" for char in text)


def test_the_schema_comes_first() -> None:
    """Before all other keys."""
    text = to_json(Words(words="x"), schema="pinproof.words/1")
    assert text.startswith('{"schema":"pinproof.words/1","words":"x"')


def test_a_large_text_is_copied_twice() -> None:
    """As bytes with what stands before and behind it, and as text."""
    size = 8 << 20
    value = Words(words="x" * size)
    tracemalloc.start()
    try:
        text = to_json(value, schema="pinproof.words/1", end="\n")
        assert tracemalloc.get_traced_memory()[1] < 2.5 * size
    finally:
        tracemalloc.stop()
    assert len(text) > size
