"""The tables of the collection's READMEs, generated from argument specifications, defaults and documentation.

``python -m tests.ansible_docs`` writes them anew, each between two marks; ``test_ansible_docs.py`` compares what the
files hold with what this module generates.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

ANSIBLE = Path(__file__).resolve().parents[1] / "ansible"
BEGIN = "<!-- {name}: begin, written by python -m tests.ansible_docs -->"
END = "<!-- {name}: end -->"
_MARKUP = re.compile(r"\b([CVOMP])\(([^()]*)\)")


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of Markdown."""
    lines = [list(titles), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def plain(text: str | list[str]) -> str:
    """Return Ansible's markup as Markdown, on one line."""
    said = " ".join(" ".join([text] if isinstance(text, str) else text).split())
    return _MARKUP.sub(lambda match: f"`{match[2].removeprefix('pinproof.node.').partition('#')[0]}`", said)


def variables(role: str) -> str:
    """Return the table of a role's variables."""
    folder = ANSIBLE / "roles" / role
    options = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((folder / "defaults/main.yml").read_text())

    def row(name: str, option: dict[str, Any]) -> tuple[str, str, str]:
        value = defaults[name]
        # A template says in the description what it comes to.
        default = "" if "{{" in str(value) else f"`{json.dumps(value, ensure_ascii=False)}`"
        choices = f"; one of {', '.join(f'`{one}`' for one in option['choices'])}" if "choices" in option else ""
        return f"`{name}`", default, plain(option["description"]).rstrip(".") + choices

    return table(("name", "default", "meaning"), (row(name, option) for name, option in options.items()))


def documentation(path: Path) -> dict[str, Any]:
    """Return what a plugin's file documents."""
    if path.suffix == ".yml":
        found = yaml.safe_load(path.read_text())["DOCUMENTATION"]
    else:
        nodes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
        (text,) = (ast.literal_eval(node.value) for node in nodes if ast.unparse(node.targets[0]) == "DOCUMENTATION")
        found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found


def plugins() -> str:
    """Return the table of modules, look-ups and filters."""
    kinds = {"module": "modules/*.py", "look-up": "lookup/*.py", "filter": "filter/*.yml"}
    files = [(kind, path) for kind, pattern in kinds.items() for path in sorted((ANSIBLE / "plugins").glob(pattern))]
    rows = [
        (f"{kind} `pinproof.node.{path.stem}`", plain(documentation(path)["short_description"])) for kind, path in files
    ]
    return table(("what", "does"), rows)


def outcomes() -> str:
    """Return the table of the words and their meaning."""
    tree = ast.parse((ANSIBLE / "plugins/module_utils/endings.py").read_text())
    words: dict[str, str] = {}
    meaning: dict[str, str] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names = [ast.unparse(name) for name in target.elts]
            words.update(zip(names, map(ast.literal_eval, node.value.elts), strict=True))
        elif ast.unparse(target) == "MEANING" and isinstance(node.value, ast.Dict):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            meaning = {words[ast.unparse(key)]: ast.literal_eval(value) for key, value in pairs if key is not None}
    return table(("outcome", "means"), ((f"`{word}`", text) for word, text in meaning.items()))


def generated() -> dict[Path, dict[str, str]]:
    """Return each README with the tables that it holds by name."""
    roles = sorted(path.name for path in (ANSIBLE / "roles").iterdir())
    found = {ANSIBLE / "roles" / role / "README.md": {"variables": variables(role)} for role in roles}
    return {**found, ANSIBLE / "README.md": {"plugins": plugins(), "outcomes": outcomes()}}


def with_tables(text: str, tables: dict[str, str]) -> str:
    """Return a README with these tables between their marks."""
    for name, made in tables.items():
        begin, end = BEGIN.format(name=name), END.format(name=name)
        assert text.count(begin) == text.count(end) == 1, name
        text = text[: text.index(begin)] + f"{begin}\n{made}\n" + text[text.index(end) :]
    return text


if __name__ == "__main__":
    for readme, tables in generated().items():
        readme.write_text(with_tables(readme.read_text(), tables))
