"""Names as bytes: every one has one printable spelling, and the spelling gives the bytes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.text import names

HOSTILE = st.one_of(
    st.binary(max_size=40),
    # Backslashes beside what they could be mistaken with.
    st.lists(
        st.sampled_from([b"\\", b"\\\\", b"n", b"x", b"ff", b"x1b", b"u202e", b"U000e0001", b"\n", b"\xff", b"\xc3"]),
        max_size=8,
    ).map(b"".join),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
)


@given(HOSTILE)
def test_a_spelling_gives_the_bytes_back(name: bytes) -> None:
    """Whatever the bytes: the spelling is one printable line of valid UTF-8, and it is reversible."""
    spelling = names.shown(name)

    assert spelling.isprintable()
    assert len(spelling.splitlines()) <= 1
    assert spelling.encode("utf-8").decode("utf-8") == spelling
    assert names.raw(spelling) == name
    assert names.canonical(spelling) == spelling


@given(st.lists(HOSTILE.filter(lambda name: b"/" not in name), min_size=1, max_size=4))
def test_a_path_is_spelt_as_its_parts(parts: list[bytes]) -> None:
    """The spelling of a path is its parts' spellings with ``/`` between them: prefixes of cgroups stay prefixes."""
    assert names.shown(b"/".join(parts)) == "/".join(map(names.shown, parts))


def test_every_single_byte_and_pair() -> None:
    """All names of one byte, and of a backslash and one byte, are spelt differently."""
    every = [bytes([number]) for number in range(1, 256)] + [b"\\" + bytes([number]) for number in range(1, 256)]

    assert len({names.shown(name) for name in every}) == len(every)
    assert [names.raw(names.shown(name)) for name in every] == every


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (b"db", "db"),
        ("Zürich-数".encode(), "Zürich-数"),
        (b"adv-u\xff", "adv-u\\xff"),
        (b"a\nb\tc\rd", "a\\nb\\tc\\rd"),
        (b"\x1b[31mred", "\\x1b[31mred"),
        ("\u202ednegel".encode(), "\\u202ednegel"),
        ("\U000e0001".encode(), "\\U000e0001"),
        # systemd's own escape is not ours: it names what it always named.
        (b"dev-a\\x2db.service", "dev-a\\x2db.service"),
        (b"C:\\dir\\", "C:\\dir\\"),
        (b"a\\nb", "a\\\\nb"),
        (b"\\\xff", "\\\\\\xff"),
        (b"\\xff", "\\\\xff"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_spellings(name: bytes, spelling: str) -> None:
    """What is written, and that it is read back."""
    assert names.shown(name) == spelling
    assert names.raw(spelling) == name


@given(st.text(max_size=30))
def test_printable_is_one_line_and_stays(text: str) -> None:
    """Any text becomes one printable line, a second pass changes nothing, and spellings pass untouched."""
    line = names.printable(text)

    assert line.isprintable()
    assert names.printable(line) == line
    assert len(line.splitlines()) <= 1


@given(st.text(st.characters(categories=["Cs", "Ll", "Cc"]), max_size=8))
def test_any_text_of_a_stranger_is_taken(text: str) -> None:
    """Half characters, which YAML can spell, become some bytes: no reader ends with an exception."""
    assert names.canonical(text).isprintable()
    assert names.from_text(text).isprintable()


def test_paths(tmp_path: object) -> None:
    """A path with any byte comes back as Python's file functions hold it."""
    name = bytes(number for number in range(1, 256) if number != ord("/"))
    path = b"/tmp/" + name

    assert names.raw(names.from_path(names.to_path(names.shown(path)))) == path
