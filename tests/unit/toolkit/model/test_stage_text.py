"""Texts of stages: the schema in front, read back to what a reader of the file gets, and few copies of megabytes."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolkit.disk import write_directory
from toolkit.errors import InputError
from toolkit.model.serde import from_json, stage_value
from toolkit.model.stage_text import StageText, written

SCHEMA = "pinproof.words/1"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A stage value of one text, and of numbers."""

    words: str = "x"
    many: int = 0
    part: float = 0.0
    by_cpu: dict[int, int] | None = None


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A stage value that has its schema itself."""

    schema: str = SCHEMA
    words: str = "x"


@pytest.mark.parametrize("value", [Words(), Words(words="ä\x7f\u2028"), Named(), Named(words="\x00")])
def test_the_schema_comes_first(value: object) -> None:
    """Before all other keys, and once."""
    text = bytes(written(value, SCHEMA)).decode()
    assert text.startswith('{\n "schema": "pinproof.words/1",\n "')
    assert text.endswith("}\n")
    assert text.count('"schema"') == 1
    assert all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize(
    "value",
    [
        Words(words="a\tb\n\u2028\x7f ä \U0001f600", many=-(10**76), part=0.1, by_cpu={0: 1, 4095: 2**63}),
        Words(part=5e-324),
        Words(part=1e308, by_cpu={}),
    ],
)
def test_what_is_read_back_is_what_its_file_says(value: Words) -> None:
    """To the last digit."""
    text = written(value, SCHEMA)
    said = json.loads(bytes(text))
    assert said.pop("schema") == SCHEMA
    assert text.read(Words) == from_json(Words, json.dumps(said), "words.json") == value


@pytest.mark.parametrize("value", [Words(many=10**77), Words(part=float("inf")), Words(part=float("nan"))])
def test_what_a_reader_of_the_file_refuses_is_not_read_back(value: Words) -> None:
    """A number that is none, or of more digits than any: no version is to judge what others cannot."""
    assert written(value, SCHEMA).read(Words) is None


@pytest.mark.parametrize("value", [Words(words="ä", by_cpu={1: 2}), Named()])
def test_on_one_line_it_says_the_same(value: Words | Named) -> None:
    """With the schema first, and nothing else of the layout."""
    text = written(value, SCHEMA, lines=False)
    assert bytes(text).startswith(b'{"schema":"pinproof.words/1","')
    assert bytes(text).count(b"\n") == 1
    assert json.loads(bytes(text)) == json.loads(bytes(written(value, SCHEMA)))
    assert text.read(type(value)) == value


def test_a_text_of_something_else_is_not_read_back() -> None:
    """It is checked like any other."""
    assert StageText(schema=SCHEMA, body=b'{"words": 7}').read(Words) is None
    assert StageText(schema=SCHEMA, body=b'{"wards": "x"}').read(Words) is None
    assert StageText(schema=SCHEMA, body=b"{").read(Words) is None


def test_a_large_text_is_never_copied(tmp_path: Path) -> None:
    """It is written, read back and saved; in between only the value that was read is made."""
    size = 8 << 20
    value = Words(words="x" * size)
    tracemalloc.start()
    try:
        text = written(value, SCHEMA)
        assert len(text) > size
        write_directory(tmp_path / "run", {"words.json": text.pieces()})
        saved = tracemalloc.get_traced_memory()[1]
        assert text.read(Words) == value
    finally:
        tracemalloc.stop()
    assert saved < 1.5 * size
    assert (tmp_path / "run" / "words.json").read_bytes() == bytes(text)


def test_pieces_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    """As with every other content of a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not a directory"):
        write_directory(tmp_path / "file" / "run", {"words.json": written(Words(), SCHEMA).pieces()})
