"""Text of stage values: printable."""

from __future__ import annotations

import json
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
    text = to_json(Words(words=words), indent=indent)
    assert json.loads(text) == {"words": words}
    assert all(char.isprintable() or char == "\n" for char in text)
