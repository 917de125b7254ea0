"""The size limits of CONTRIBUTING.md. The linters themselves are `make lint` and `make types`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = ("toolkit", "probes", "validators", "tests")
PYTHON_LINES_MAX = 330
"""CONTRIBUTING says "about 300": a tenth more is about 300."""
BPF_LINES_MAX = 250


def python_files() -> list[Path]:
    """Every Python file of the project."""
    return sorted(path for folder in SOURCES for path in (PROJECT / folder).rglob("*.py"))


def test_python_files_are_short_or_say_why() -> None:
    """A Python file has at most about 300 lines, or its docstring says why it is longer."""
    long = []
    for path in python_files():
        text = path.read_text()
        doc = ast.get_docstring(ast.parse(text)) or ""
        if text.count("\n") > PYTHON_LINES_MAX and "longer than 300 lines" not in doc.lower():
            long.append(f"{path.relative_to(PROJECT)}: {text.count(chr(10))} lines")

    assert long == []


def test_python_files_say_what_they_are() -> None:
    """Every Python file with code begins with a docstring."""
    silent = [
        str(path.relative_to(PROJECT))
        for path in python_files()
        if (tree := ast.parse(path.read_text())).body and ast.get_docstring(tree) is None
    ]

    assert silent == []


def test_bpf_files_are_short() -> None:
    """A BPF source has at most 250 lines."""
    long = [
        f"{path.name}: {lines} lines"
        for path in sorted((PROJECT / "probes" / "bpf").glob("*.[ch]"))
        if (lines := path.read_text().count("\n")) > BPF_LINES_MAX
    ]

    assert long == []


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
