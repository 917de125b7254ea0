"""The quick reader reads what the careful one reads, and leaves to it what it refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import resources

import pytest

from tests.seeds import SEED
from toolkit.errors import InputError
from toolkit.text import yaml_loaders, yaml_text
from toolkit.text.yaml_text import parse_document, parse_documents

TEXTS = {
    entry.name: entry.read_text(encoding="utf-8")
    for folder in ("scenarios", "scenarios/node")
    for entry in (resources.files("validators") / folder).iterdir()
    if entry.name.endswith(".yaml")
}


@pytest.fixture
def careful(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Read with the careful reader alone; returns what came of it, types too: 1, 1.0 and True are equal in Python."""

    def read(text: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(yaml_text, "QuickLoader", yaml_loaders.AnyLoader)
            return outcome(text)

    return read


def outcome(text: str) -> str:
    """Return the data, or the refusal."""
    try:
        return repr(parse_documents(text, "x", frozenset()))
    except InputError as error:
        return str(error)


def test_every_text_of_ours_is_read_alike(careful: Callable[[str], str]) -> None:
    """Those that ship with pinproof are read quickly whatever they have."""
    assert len(TEXTS) > 160
    for name, text in TEXTS.items():
        assert repr(parse_documents(text, name, own=True)) == repr(parse_documents(text, name)), name
    for text in list(TEXTS.values())[::20]:
        assert outcome(text) == careful(text)


PIECES = (
    *(
        "a",
        "b: ",
        "- ",
        "-",
        "\n",
        "\n  ",
        "\n    ",
        ":",
        ": ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ",",
        "'",
        '"',
        "\\",
        "#",
        " #",
    ),
    *("---\n", "---", "...\n", "1", "0o7", "010", "1.5", "~", "true", " ", "a?b", "-1", "=", "<<: ", "2020-01-01"),
    *("|", "|-\n", ">\n", "|2\n", "@", "%", "%YAML 1.1\n", "!", "! ", "*", "&a ", "0x1F", "1:30", "1_0", ".inf", "\t"),
)


def test_what_is_read_quickly_is_what_the_careful_one_reads(careful: Callable[[str], str]) -> None:
    """Texts of pieces that mean something in YAML: the same data, or the same words that refuse them."""
    seeded = random.Random(SEED)
    texts = ["".join(seeded.choices(PIECES, k=seeded.randint(1, 9))) for _ in range(400)]
    for text in ["!", "|# c\n", "{a?b: 1}", "a: !\n", "[" * 60 + "]" * 60, "[" * 200, *texts]:
        assert outcome(text) == careful(text), text
    assert any(not yaml_loaders.ODD.search(text) for text in texts)


@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2\n", "a: &x 1\nb: *x\n", f"a: {'9' * 200}\n", "a: !!python/object:os.system 1\n", "a: 08x: [\n"],
    ids=["key twice", "alias", "huge number", "tag", "no YAML"],
)
def test_what_loses_or_multiplies_data_is_refused_here_too(text: str) -> None:
    """With the place in it."""
    with pytest.raises(InputError, match=r"line [12], column"):
        parse_document(text, "x", own=True)
