"""No file is asked for in a way that ends a verb of an ordinary user below a directory of mode 0700.

Read from the source text: ``Path.is_dir()`` and its like raise PermissionError there. Each stands where the error is
caught, in a function that says that it raises it, or is asked of :mod:`toolkit.presence`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
RAISING = frozenset(
    ("exists", "is_dir", "is_file", "is_socket", "is_symlink", "is_mount", "samefile", "iterdir", "glob", "rglob")
)
OF_OS = frozenset(("listdir", "scandir"))
NO_PATHS = frozenset(("presence", "cgroupfs", "tree", "journal"))
"""Our own functions of these names: they answer."""
CANDIDATE = re.compile(rf"\.({'|'.join((*RAISING, *OF_OS))})\b")
"""What a text has that is worth being parsed."""

ASKED = ("toolkit/presence.py", "tools/readme.py")
"""The answers themselves, and what makes a table of the project's own tree."""


def _catches(node: ast.AST) -> bool:
    """Say whether what stands in the body of a statement may raise an OSError."""
    if isinstance(node, ast.Try):
        caught = " ".join(ast.unparse(one.type) for one in node.handlers if one.type is not None)
        return any(name in caught for name in ("OSError", "PermissionError", "Exception"))
    if isinstance(node, ast.With):
        return any("suppress(" in (text := ast.unparse(one)) and "OSError" in text for one in node.items)
    return False


def _says_so(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    return ":raises OSError" in (ast.get_docstring(node) or "")


def _asked(node: ast.AST, caught: bool) -> Iterator[ast.Call]:
    for field, value in ast.iter_fields(node):
        # Only the body of a statement is caught by it: neither its handlers nor what stands after it.
        inside = caught or _says_so(node) or (field in ("body", "items") and _catches(node))
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.Call) and not inside and isinstance(child.func, ast.Attribute):
                owner = ast.unparse(child.func.value)
                of_path = child.func.attr in RAISING and owner.rpartition(".")[2] not in NO_PATHS and owner != "os.path"
                if of_path or (owner == "os" and child.func.attr in OF_OS):
                    yield child
            yield from _asked(child, inside)


def unguarded(text: str) -> list[str]:
    """Return the calls of a source text that may end in a PermissionError, with their lines."""
    return [f"{call.lineno}: {ast.unparse(call)}" for call in _asked(ast.parse(text), False)]


def test_the_test_finds_them() -> None:
    """Beside a try that catches something else, in its handler, and below nothing at all."""
    assert unguarded("path.is_dir()") == ["1: path.is_dir()"]
    assert unguarded("try:\n    pass\nexcept OSError:\n    path.exists()") == ["4: path.exists()"]
    assert unguarded("try:\n    path.exists()\nexcept ValueError:\n    pass") == ["2: path.exists()"]
    assert unguarded("def f():\n    with open(p) as a:\n        os.listdir(p)") == ["3: os.listdir(p)"]
    assert not unguarded("try:\n    path.exists()\nexcept OSError:\n    pass")
    assert not unguarded("with suppress(OSError):\n    path.iterdir()")
    assert not unguarded("presence.is_dir(path)")


def test_no_module_asks_a_path_itself() -> None:
    """All of the programs but what changes the host: root does, and what it may not see must not be taken for gone."""
    found = [
        f"{path.relative_to(PROJECT)}:{line}"
        for package in ("toolkit", "probes", "validators")
        for path in sorted((PROJECT / package).rglob("*.py"))
        if str(path.relative_to(PROJECT)) not in ASKED and PROJECT / "toolkit/apply" not in path.parents
        if CANDIDATE.search(text := path.read_text(encoding="utf-8"))
        for line in unguarded(text)
    ]
    assert found == []
