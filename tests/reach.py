"""Run the unit tests that reach a source file, nearest first: ``make test-of toolkit/disk.py``.

A test file reaches a module that it imports, and what that one imports, inside functions too. A name of a module in a
string counts (``importlib.import_module(f"toolkit.cli.{verb}")`` reaches every verb), and so does a fixture of a
``conftest.py`` that a test asks for. A file that is no Python is reached through the modules that name it, or that
stand beside it, or that name its folder.
Nearest is what has the fewest imports between; of those the test file of that name, then the one that reaches least.

What many tests reach would take minutes, so no more begin after a time. Exit code: pytest's; 1 where none reaches the
file, 2 where the file is not of this tree. Tests that read the tree as text (imports, lint, READMEs) reach no file.
"""

from __future__ import annotations

import argparse
import ast
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.import_graph import imports_of, module_name

PROJECT = Path(__file__).resolve().parent.parent
OURS = ("toolkit", "probes", "validators", "tests", "tools", "ansible/plugins")
LEFT_OUT = ("tests/integration/", "tests/lab/", "tests/benchmarks/", "tests/data/", "validators/conformance/test_")
"""Tests that need more than a Python, and what is data of tests."""
KEPT = ".cache/imports.pickle"
BATCH = 6
"""Test files of one pytest: between two of them the time is looked at."""
SECONDS = 20.0


class Source(NamedTuple):
    """One file of the tree, by the names in it: of modules, of fixtures it makes or asks for, of files."""

    imports: frozenset[str]
    fixtures: frozenset[str]
    words: frozenset[str]
    prefixes: frozenset[str]


def read(path: Path, root: Path) -> Source:
    """Parse one module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    imports = {found for found, _ in imports_of(nodes, module_name(path, root), path.name == "__init__.py")}
    words, prefixes, asked = set(), set(), set()
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 100:
            words.add(node.value)
        elif isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            prefixes.add(str(node.values[0].value))
        elif isinstance(node, ast.arg):
            asked.add(node.arg)
    made = set(_fixtures(tree))
    return Source(frozenset(imports), frozenset(made or asked | words), frozenset(words), frozenset(prefixes))


def _fixtures(tree: ast.Module) -> Iterator[str]:
    """Names of the fixtures that a test must ask for."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for mark in map(ast.unparse, node.decorator_list):
                if "fixture" in mark and "autouse=True" not in mark:
                    yield node.name


def read_all(root: Path) -> dict[str, Source]:
    """Every module by its path below the root; what has not changed since the last time is not parsed again."""
    kept = root / KEPT
    mine = Path(__file__).stat().st_mtime_ns
    try:
        before = pickle.loads(kept.read_bytes())
    except (OSError, ValueError, TypeError, EOFError, AttributeError, pickle.UnpicklingError):
        before = {}
    now = {}
    for path in sorted(path for top in OURS for path in (root / top).rglob("*.py")):
        name, stat = str(path.relative_to(root)), path.stat()
        if not name.startswith(LEFT_OUT):
            key = (mine, stat.st_mtime_ns, stat.st_size)
            old = before.get(name)
            now[name] = old if old is not None and old[0] == key else (key, read(path, root))
    if now != before:
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(pickle.dumps(now))
    return {name: source for name, (_, source) in now.items()}


class Tree:
    """Every module of the tree, and which names which.

    :param root: the top folder of a checkout.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sources = read_all(root)
        self.modules = {module_name(root / name, root): name for name in self.sources}

    def names(self, file: str) -> set[str]:
        """Files that a file names: by imports, in strings, and the conftest files whose fixtures it asks for."""
        source = self.sources[file]
        found = {self.modules[name] for name in (*source.imports, *source.words) if name in self.modules}
        for prefix in source.prefixes:
            if re.fullmatch(r"(\w+\.)+", prefix):
                found |= {path for name, path in self.modules.items() if name.rpartition(".")[0] == prefix[:-1]}
        for above in Path(file).parents:
            conftest = str(above / "conftest.py")
            if conftest in self.sources and self.sources[conftest].fixtures & source.fixtures:
                found.add(conftest)
        return found - {file}

    def holders(self, file: str) -> set[str]:
        """Where a walk back from a file begins: the file itself, or what reads it where it is no Python.

        A header is read with the programs that include it; a file that no module names, with the modules beside it.
        """
        if file in self.sources:
            return {file}
        path = Path(file)
        words = {path.name, *(self._including(path) if path.suffix == ".h" else ())}
        by_name = {name for name, source in self.sources.items() if words & source.words}
        beside = {name for name in self.sources if Path(name).parent == path.parent}
        return by_name or beside or {name for name, one in self.sources.items() if path.parent.name in one.words}

    def _including(self, header: Path) -> Iterator[str]:
        for path in (self.root / header).parent.glob("*.[ch]"):
            if f'#include "{header.name}"' in path.read_text(encoding="utf-8"):
                yield path.name

    def tests(self, file: str) -> list[tuple[int, str]]:
        """Test files that reach a file, each with how many imports lie between; nearest first."""
        names = {name: self.names(name) for name in self.sources}
        named_by: dict[str, set[str]] = {name: set() for name in names}
        for name, targets in names.items():
            for target in targets:
                named_by[target].add(name)
        far = _distances(named_by, self.holders(file))
        if file.endswith("conftest.py"):
            far |= {name: 1 for name in names if Path(file).parent in Path(name).parents}
        found = [name for name in far if Path(name).name.startswith("test_") and name.startswith("tests/unit/")]
        same, folder = f"test_{Path(file).name.partition('.')[0]}.py", f"tests/unit/{Path(file).parent}"

        def key(name: str) -> tuple[int, bool, bool, int, str]:
            apart = Path(name).name != same, str(Path(name).parent) != folder
            return far[name], *apart, len(_distances(names, {name})), name

        return [(far[name], name) for name in sorted(found, key=key)]


def _distances(edges: dict[str, set[str]], starts: Iterable[str]) -> dict[str, int]:
    """Steps from the starts to everything that can be reached."""
    far = dict.fromkeys(starts, 0)
    waiting = list(far)
    for name in waiting:
        for target in edges[name] - far.keys():
            far[target] = far[name] + 1
            waiting.append(target)
    return far


def ours(said: str, root: Path) -> str | None:
    """Return a file's path below the root; ``None`` for what is no file of a folder of ours."""
    path = (Path.cwd() / said).resolve()
    if not path.is_file() or not path.is_relative_to(root):
        return None
    name = str(path.relative_to(root))
    return name if name.startswith(tuple(f"{top}/" for top in OURS)) else None


def main(arguments: list[str], root: Path = PROJECT) -> int:
    """Run what reaches the file that is named."""
    parser = argparse.ArgumentParser(prog="make test-of FILE", description="Run the unit tests that reach a file.")
    parser.add_argument("file", help=f"a file below {', '.join(OURS)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="begin no more after this time (default 20)")
    parser.add_argument("--all", action="store_true", help="run all that reach it, however long it takes")
    parser.add_argument("--list", action="store_true", help="print them, and run nothing")
    options = parser.parse_args(arguments)
    file = ours(options.file, root)
    if file is None:
        print(f"test-of: {options.file}: no file of {', '.join(OURS)}", file=sys.stderr)
        return 2
    began = time.monotonic()
    tests = Tree(root).tests(file)
    if not tests:
        print(f"test-of: no unit test reaches {file}", file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(f"{distance} {name}" for distance, name in tests))
        return 0
    return run([name for _, name in tests], root, float("inf") if options.all else began + options.seconds)


def run(tests: list[str], root: Path, until: float) -> int:
    """Run test files, some at a time, until a moment of the monotonic clock or the first that fails."""
    for at in range(0, len(tests), BATCH):
        if at and time.monotonic() > until:
            print(f"test-of: {at} of {len(tests)} test files ran, nearest first; --all runs the rest")
            break
        code = subprocess.run(
            [sys.executable, "-m", "pytest", *tests[at : at + BATCH]], cwd=root, check=False
        ).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
