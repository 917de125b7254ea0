"""YAML of unknown make: nested without end it is refused at once."""

from __future__ import annotations

import pytest

from toolkit.errors import InputError
from toolkit.text.yaml_text import MAX_DEPTH, parse_document, parse_documents


@pytest.mark.parametrize("sign", ["[", "- ", "? ", '{"a": ', "- ["])
def test_nesting_has_an_end(sign: str) -> None:
    """A kubelet's configuration or a static pod of some kilobytes would cost half a second at each reading."""
    with pytest.raises(InputError, match=f"more than {MAX_DEPTH} levels"):
        parse_document(sign * 100_000, "config.yaml")


@pytest.mark.parametrize("text", ["[" * 90 + "]" * 90, "- " * 90 + "x"])
def test_a_document_of_many_levels_is_read(text: str) -> None:
    """Far more than a person writes."""
    assert isinstance(parse_document(text, "config.yaml"), list)


def test_json_may_be_indented_with_tabs() -> None:
    """Kubelet and kubectl take it; flow mappings that are no JSON stay YAML."""
    assert parse_document('\n{\n\t"a": [1, 0.5,\t"x\\ty"],\n\t"b": {"c": null}\n}\n', "f") == {
        "a": [1, 0.5, "x\ty"],
        "b": {"c": None},
    }
    assert parse_document("{a: 1, b: [x, 'y']}", "f") == {"a": 1, "b": ["x", "y"]}
    assert parse_documents('{"a": 1}\n---\n{"a": 2}', "f") == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{\n\t"a": 1\n\t"b": 2\n}', "f: not JSON: Expecting ',' delimiter: line 3 column 2"),
        ('{"a": 1, "a": 2}', "f: key 'a' twice in one object"),
        ('{"a": 1, b: 2, b: 3}', "f: not YAML: line 1, column 16: key 'b' twice"),
        ("[" * 150 + "]" * 150, f"f: not YAML: line 1, column 101: more than {MAX_DEPTH} levels"),
    ],
)
def test_bad_json_is_one_line(text: str, line: str) -> None:
    """A comma too few is not the tabs' fault; what YAML refuses JSON does not let pass."""
    with pytest.raises(InputError) as raised:
        parse_document(text, "f")
    assert str(raised.value).startswith(line)
