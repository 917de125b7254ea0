"""What CONTRIBUTING.md says of files and functions. The linters themselves are `make lint` and `make types`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.import_graph import imports_of

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = ("toolkit", "probes", "validators", "tools", "tests")
FUNCTION_LINES_MAX = 59


class Facts(NamedTuple):
    """What a Python file is judged by; hundreds are parsed once for all tests, and no tree is kept."""

    silent: bool
    """It has code, and no docstring."""
    imported: tuple[str, ...]
    functions: tuple[tuple[str, int], ...]


@cache
def facts(path: Path) -> Facts:
    """Read a file once."""
    tree = ast.parse(path.read_text())
    silent = bool(tree.body) and ast.get_docstring(tree) is None
    every = list(statements(tree.body))
    imported = tuple(name for name, _ in imports_of(every, path.stem, path.name == "__init__.py"))
    return Facts(silent, imported, tuple(functions(every)))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement of a body, inner ones too; expressions, which are most of a tree, are not looked into."""
    for one in body:
        yield one
        for inner in ("body", "orelse", "finalbody"):
            yield from statements(getattr(one, inner, []))
        for part in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            yield from statements(part.body)


def python_files() -> list[Path]:
    """Every Python file of the project."""
    return sorted(path for folder in SOURCES for path in (PROJECT / folder).rglob("*.py"))


def test_python_files_say_what_they_are() -> None:
    """Every Python file with code begins with a docstring."""
    silent = [str(path.relative_to(PROJECT)) for path in python_files() if facts(path).silent]

    assert silent == []


def of_a_test(name: str) -> bool:
    """Whether a name is of a test module or of a conftest, or in one."""
    return any(part == "conftest" or part.startswith("test_") for part in name.split("."))


def test_no_module_imports_a_test() -> None:
    """What tests share is in a module that holds no test: a test that is imported cannot be changed for itself."""
    found = [
        f"{path.relative_to(PROJECT)}: {name}"
        for path in python_files()
        for name in facts(path).imported
        if name.startswith("tests.") and of_a_test(name)
    ]

    assert found == []


EVIDENCE_COPIED = re.compile(r"replace\(\s*(?:\w+\.)*evidence\b")


def test_no_rule_copies_evidence() -> None:
    """What a rule leaves out of the window's evidence it asks a query for; a copy with fields cut is a second truth."""
    copied = [
        str(path.relative_to(PROJECT))
        for path in sorted((PROJECT / "validators").rglob("*.py"))
        if EVIDENCE_COPIED.search(path.read_text())
    ]

    assert copied == []
    assert EVIDENCE_COPIED.search("replace(\n    life.evidence, bandwidth=())")


def test_an_imported_test_is_found(tmp_path: Path) -> None:
    """Its names, the module itself, and a conftest's fixture."""
    path = tmp_path / "x.py"
    path.write_text("from tests.a.test_x import y\nfrom tests import test_z\nimport tests.a.conftest\nimport os\n")

    found = {name for name in facts(path).imported if of_a_test(name)}
    assert found == {"tests.a.test_x", "tests.a.test_x.y", "tests.test_z", "tests.a.conftest"}


def planted_sources() -> list[Path]:
    """The C sources and headers of the programs that tests plant."""
    return sorted((PROJECT / "tests").rglob("*.[ch]"))


def test_functions_in_c_are_short() -> None:
    """A function of theirs, and of the BPF programs, has fewer than 60 lines."""
    body = re.compile(r"^\{\n.*?^\}", re.MULTILINE | re.DOTALL)
    lines = [
        (path.name, found.group().splitlines()[1].strip(), found.group().count("\n") + 2)
        for path in [*planted_sources(), *(PROJECT / "probes").rglob("*.[ch]")]
        for found in body.finditer(path.read_text())
    ]

    assert len(lines) > 50
    assert [each for each in lines if each[2] > FUNCTION_LINES_MAX] == []


def functions(every: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Every function of a file, and its lines."""
    for node in every:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_are_short() -> None:
    """A function has fewer than 60 lines."""
    long = [
        f"{path.relative_to(PROJECT)}: {name} has {lines} lines"
        for path in python_files()
        for name, lines in facts(path).functions
        if lines > FUNCTION_LINES_MAX
    ]

    assert long == []


def test_a_long_function_is_found(tmp_path: Path) -> None:
    """One inside a class or another function counts too."""
    path = tmp_path / "x.py"
    path.write_text("class A:\n    def f(self):\n" + "        x = 1\n" * FUNCTION_LINES_MAX)
    assert dict(facts(path).functions) == {"f": FUNCTION_LINES_MAX + 1}


def test_nothing_is_left_half_done() -> None:
    """No file of the packages carries a marker of unfinished work, or the path of a developer's machine."""
    marker = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b|(?<![\w.])/(work|home)/\w")
    found = [
        f"{path.relative_to(PROJECT)}:{number}: {line.strip()}"
        for folder in ("toolkit", "probes", "validators", "ansible")
        for path in sorted((PROJECT / folder).rglob("*"))
        if path.is_file() and path.suffix in {".py", ".c", ".h", ".yml", ".yaml", ".md", ".sh", ".j2"}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marker.search(line)
    ]

    assert found == []
