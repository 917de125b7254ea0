"""Each role says the same in its argument specification, its defaults and its README, and each module in its code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from tests import ansible_docs
from tests.ansible_docs import ANSIBLE

pytestmark = pytest.mark.idle

ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir())


@pytest.mark.parametrize("role", ROLES)
def test_variables_are_told_alike(role: str) -> None:
    """A variable is specified, has a commented default, and carries the role's prefix."""
    folder = ANSIBLE / "roles" / role
    specified = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text())

    assert set(specified) == set(defaults)
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


@pytest.mark.parametrize("readme", ansible_docs.generated(), ids=str)
def test_tables_are_current(readme: Path) -> None:
    """READMEs hold what is generated (else: python -m tests.ansible_docs)."""
    text = readme.read_text()

    assert ansible_docs.with_tables(text, ansible_docs.generated()[readme]) == text


@pytest.mark.parametrize("module", sorted((ANSIBLE / "plugins/modules").glob("*.py")), ids=lambda path: path.stem)
def test_a_module_documents_the_arguments_that_it_takes(module: Path) -> None:
    """Each option with its type and default, in the documentation as in the code that reads it."""
    action = ANSIBLE / "plugins/action" / module.name
    code = module if "argument_spec" in module.read_text() else action
    (call,) = (
        node
        for node in ast.walk(ast.parse(code.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "argument_spec"
    )
    taken = ast.literal_eval(call.value)
    documented = ansible_docs.documentation(module)["options"]

    assert set(documented) == set(taken)
    for name, option in documented.items():
        for key in ("type", "choices", "default", "required", "elements"):
            assert option.get(key) == taken[name].get(key), (name, key)
