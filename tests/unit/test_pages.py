"""The pages for users are held to the code: the claims file, privileges, the pytest fixtures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolkit.model.claims import Alignment, Isolation, Preference
from toolkit.sources.claims_file import FILE_FIELDS, parse_claims
from toolkit.verbs import VERBS
from validators import plugin

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    """Return a page."""
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_key_of_the_claims_file_is_explained() -> None:
    """Each has words of its own, which the table, the schema and errors repeat."""
    for where, model in FILE_FIELDS.items():
        for name, field in model.model_fields.items():
            assert field.description, f"{where}: {name}"
            assert f"| `{field.alias or name}` | " in page("claims-file.md"), f"{where}: {name}"


@pytest.mark.parametrize("word", [*Isolation, *Alignment, *Preference])
def test_every_word_of_a_claim_is_explained(word: str) -> None:
    """A sentence for each isolation, a row for each alignment and preference."""
    text = page("claims-file.md")
    row = f"- `{word}`: " if word in list(Isolation) else rf"| `{word}`"
    assert row in text


def test_the_example_of_the_page_is_read() -> None:
    """As it stands there."""
    (example,) = re.findall(r"```yaml\n(apiVersion.*?)```", page("claims-file.md"), re.DOTALL)
    claims = parse_claims(example, "the page")
    assert [claim.name for claim in claims.claims] == ["db", "web"]


def test_every_verb_stands_in_the_table_of_privileges() -> None:
    """Once."""
    table = page("privileges.md").split("<!-- privileges: end")[0]
    assert {name: table.count(f"`{name}`") for name in VERBS} == dict.fromkeys(VERBS, 1)


def test_the_fixtures_of_the_page_are_those_of_the_plugin() -> None:
    """All of them, and no other; what the page calls exists."""
    text = page("pytest.md")
    fixtures = {name for name in vars(plugin) if name.startswith("pinproof_")}
    assert set(re.findall(r"^\| `(pinproof_\w+)` \|", text, re.MULTILINE)) == fixtures
    for name in re.findall(r"`\.(\w+)(?:\(\))?`", text):
        assert name in {*plugin.Judged.__dataclass_fields__, *vars(plugin.Judged)}, name
    assert {"live", "claims"} == set(plugin.Box.__dataclass_fields__)


def test_the_options_of_the_page_are_those_of_the_plugin() -> None:
    """Each of them, and no other."""
    parser = pytest.Parser(_ispytest=True)
    plugin.pytest_addoption(parser)
    (group,) = (group for group in parser._groups if group.name == "pinproof")
    options = {name for option in group.options for name in option.names()}
    assert set(re.findall(r"^\| `(--[\w-]+)", page("pytest.md"), re.MULTILINE)) == options
