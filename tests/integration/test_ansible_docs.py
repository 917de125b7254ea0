"""Each role says the same in its argument specification, its defaults and its README."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.integration.ansible_runs import ANSIBLE

pytestmark = pytest.mark.idle

ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir())


@pytest.mark.parametrize("role", ROLES)
def test_variables_are_told_alike(role: str) -> None:
    """A variable is specified, has a commented default, is in the README's table, and carries the role's prefix."""
    folder = ANSIBLE / "roles" / role
    specified = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text())
    table = set(re.findall(r"^\| `(\w+)` \|", (folder / "README.md").read_text(), re.MULTILINE)) - {"check"}

    assert set(specified) == set(defaults)
    assert {name for name in table if name.startswith(role)} == set(specified)
    assert all(name.startswith(role + "_") for name in specified)
    literal = {name: spec["default"] for name, spec in specified.items() if "default" in spec}
    written = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    assert {name: literal[name] for name in written if name in literal} == {
        name: written[name] for name in written if name in literal
    }


@pytest.mark.parametrize("role", ROLES)
def test_defaults_are_commented(role: str) -> None:
    """Every default has a comment above it."""
    text = (ANSIBLE / "roles" / role / "defaults/main.yml").read_text()
    blocks = [block for block in text.split("\n\n") if re.search(r"^pinproof_", block, re.MULTILINE)]

    assert all(block.lstrip("-\n").startswith("#") for block in blocks)


@pytest.mark.parametrize("role", ROLES)
def test_readme_says_what_the_role_will_not_do(role: str) -> None:
    """Each README has its "It will not:"."""
    assert "It will not:" in (ANSIBLE / "roles" / role / "README.md").read_text()
