"""Texts as Go words them. Expectations: the examples in the documentation of strconv and what its rules say."""

from __future__ import annotations

import pytest

from toolkit.kubernetes.go_text import GoError, atoi, quote, quote_byte


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("\x00\x1b\x1f\x7f", '"\\x00\\x1b\\x1f\\x7f"'),
        # The documentation's own: fmt.Println(strconv.Quote(`"Fran & Freddie's Diner	☺"`))
        ('"Fran & Freddie\'s Diner\t☺"', '"\\"Fran & Freddie\'s Diner\\t☺\\""'),
        ("\x85\xa0\xad", '"\\u0085\\u00a0\\u00ad"'),
        ("\u2028\u202e\ufeff", '"\\u2028\\u202e\\ufeff"'),
        ("\U000e0001\U0001f600", '"\\U000e0001😀"'),
        (b"a\xffb\xc3".decode("utf-8", "surrogateescape"), '"a\\xffb\\xc3"'),
        ("\ufffd", '"\ufffd"'),
    ],
)
def test_quote(text: str, quoted: str) -> None:
    """``%q``: short escapes, bytes in hexadecimal, what cannot be printed by its number, the rest as it is."""
    assert quote(text) == quoted
    assert quote(text).isprintable()


def test_messages_hold_no_control_characters() -> None:
    """A complaint about a hostile text is one line."""
    with pytest.raises(GoError) as raised:
        atoi("1\n\x1b[2J")

    assert str(raised.value) == 'strconv.Atoi: parsing "1\\n\\x1b[2J": invalid syntax'


@pytest.mark.parametrize(
    ("text", "quoted"), [("x", "'x'"), ("'", r"'\''"), ('"', "'\"'"), ("\n", r"'\n'"), ("é", "'Ã'")]
)
def test_quote_byte(text: str, quoted: str) -> None:
    """One byte in single quotes, as in "invalid character 'x' looking for beginning of value"."""
    assert quote_byte(text) == quoted
