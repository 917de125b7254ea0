"""YAML of unknown make: nested without end it is refused at once."""

from __future__ import annotations

import pytest

from toolkit.errors import InputError
from toolkit.model.yaml_text import MAX_DEPTH, parse_document


@pytest.mark.parametrize("sign", ["[", "- ", "? ", '{"a": ', "- ["])
def test_nesting_has_an_end(sign: str) -> None:
    """A kubelet's configuration or a static pod of some kilobytes would cost half a second at each reading."""
    with pytest.raises(InputError, match=f"more than {MAX_DEPTH} levels"):
        parse_document(sign * 100_000, "config.yaml")


@pytest.mark.parametrize("text", ["[" * 90 + "]" * 90, "- " * 90 + "x"])
def test_a_document_of_many_levels_is_read(text: str) -> None:
    """Far more than anybody writes."""
    assert isinstance(parse_document(text, "config.yaml"), list)
