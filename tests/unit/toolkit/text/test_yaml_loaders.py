"""The quick reader of the catalogue's texts reads what the careful one reads, and refuses the same."""

from __future__ import annotations

from importlib import resources

import pytest
import yaml

from toolkit.errors import InputError
from toolkit.text import yaml_loaders
from toolkit.text.yaml_text import parse_document, parse_documents

TEXTS = {
    entry.name: entry.read_text(encoding="utf-8")
    for folder in ("scenarios", "scenarios/node")
    for entry in (resources.files("validators") / folder).iterdir()
    if entry.name.endswith(".yaml")
}


def test_every_text_of_ours_is_read_alike() -> None:
    """Types too: 1, 1.0 and True are equal in Python."""
    assert len(TEXTS) > 160
    for name, text in TEXTS.items():
        assert repr(parse_documents(text, name, own=True)) == repr(parse_documents(text, name)), name


@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2\n", "a: &x 1\nb: *x\n", f"a: {'9' * 200}\n", "a: !!python/object:os.system 1\n", "a: 08x: [\n"],
    ids=["key twice", "alias", "huge number", "tag", "no YAML"],
)
def test_what_loses_or_multiplies_data_is_refused_here_too(text: str) -> None:
    """With the place in it."""
    with pytest.raises(InputError, match=r"line [12], column"):
        parse_document(text, "x", own=True)


def test_without_the_binding_the_careful_one_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML can be built without libyaml."""
    assert yaml_loaders.own_loader() is not yaml_loaders.AnyLoader
    monkeypatch.setattr(yaml, "__with_libyaml__", False)

    assert yaml_loaders.own_loader() is yaml_loaders.AnyLoader
