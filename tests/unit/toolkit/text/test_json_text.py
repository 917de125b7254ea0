"""JSON that another reader reads as something else is refused; what a kubelet reads is read as the kubelet does."""

from __future__ import annotations

import json
import re
import tracemalloc

import pydantic_core
import pytest

from toolkit.errors import InputError
from toolkit.text import json_text

AMBIGUOUS = {
    '{"a": 1, "a": 2}': "key 'a' twice",
    '[{"x": {"a": 1, "b": 2, "\\u0061": 1}}]': "key 'a' twice",
    '{"x": 1e400}': "the number 1e400",
    '{"x": [-1e999]}': "the number -1e999",
    '{"x": NaN}': "the number NaN",
    '{"x": -Infinity}': "the number -Infinity",
    f'{{"x": {"9" * 78}}}': f"the number {'9' * 40}…",
}


@pytest.mark.parametrize(("text", "found"), AMBIGUOUS.items())
def test_ambiguous_text_is_refused(text: str, found: str) -> None:
    """By both readers, with what was found and what is expected."""
    for read in (json_text.check, json_text.load):
        with pytest.raises(InputError, match=r"f: .*; expected ") as refused:
            read(text, "f")
        assert found in str(refused.value)


@pytest.mark.parametrize("text", ['{"a": {"a": 1}, "b": {"a": 1}}', '{"x": "9e999 NaN"}', f'["{"9" * 90}"]', "1e308"])
def test_plain_text_is_not(text: str) -> None:
    """A key may come again in another object, and a text is no number."""
    json_text.check(text, "f")
    json_text.check(text.encode(), "f")
    json_text.load(text, "f")


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000])
def test_what_is_no_json(text: str | bytes) -> None:
    """An error of its own: a part that was cut off is none that was made."""
    with pytest.raises(json_text.NotJsonError):
        json_text.check(text, "f")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"m": {"x": {"p": 1}, "y": 1}, "m": {"x": {"q": 2}}}', {"m": {"x": {"q": 2}, "y": 1}}),
        ('{"m": {"x": 1}, "m": null, "m": {"y": 2}}', {"m": {"y": 2}}),
        ('{"m": {"n": {"x": 1}, "n": {"y": 1}}}', {"m": {"n": {"y": 1}}}),
        ("[1]", [1]),
    ],
)
def test_as_go(text: str, read: object) -> None:
    """The last value counts; into a map of the outermost struct Go decodes again, into one of a map it does not."""
    assert json_text.load_as_go(text) == read


@pytest.mark.parametrize(
    "text",
    ['{\n "a": 1,\n "a": 2\n}', '{\n "x": 1e400\n}', '{\n "x": Infinity\n}', f'{{\n "x": {"9" * 78}\n}}', '{"x": 1}'],
)
def test_what_says_something_else_does_not_say_itself(text: str) -> None:
    """What was read of an ambiguous text is written otherwise, or its number is too long."""
    assert not json_text.says_itself(text.encode(), json.loads(text), 1)
    one_line = re.sub(r"\s", "", text) if text.count("\n") else text
    assert not json_text.says_itself(one_line.encode(), json.loads(text), None)


def test_what_was_written_says_itself() -> None:
    """The texts of a run are written as they are read; the same value in other words is not."""
    value = {"a": [1, 2.5, None, "ä"], "b": {"a": "9" * 77}}
    text = pydantic_core.to_json(value, indent=1)

    assert json_text.says_itself(text + b"\n", value, 1)
    assert json_text.says_itself(pydantic_core.to_json(value), value, None)
    assert not json_text.says_itself(json.dumps(value).encode(), value, 1)
    assert not json_text.says_itself(text + b"x", value, 1)


@pytest.mark.parametrize("place", [0, 1, 77, 78, 1 << 17, (1 << 17) - 1, (1 << 17) - 40, (1 << 17) - 78, 1 << 18])
def test_many_digits_are_found_wherever_they_are(place: int) -> None:
    """A text is looked through piece by piece."""
    digits = json_text.MAX_DIGITS
    around = b"x" * place, b"x" * (1 << 17)
    assert json_text.has_long(b"1234567890".join([b""] * 9)[: digits + 1].join(around))
    assert not json_text.has_long(b"1234567890".join([b""] * 9)[:digits].join(around))


def test_a_large_text_is_not_copied() -> None:
    """The evidence of hundreds of claims is looked through in each window."""
    text = b'{"x":"' + b"1x" * (4 << 20) + b'"}'
    tracemalloc.start()
    try:
        assert not json_text.has_long(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
