"""The direction of imports, read from the source text, and that `validators` is this project's package.

Source: CONTRIBUTING.md, "The rules of the tree". Nothing is imported here to find out: an import inside a function
counts like one at the top.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("toolkit", "probes", "validators")

BASE = ("toolkit", "toolkit.errors", "toolkit.model")
LAYERS = (
    *("toolkit.allocation", "toolkit.host", "toolkit.apply", "toolkit.faults", "toolkit.report", "toolkit.sources"),
    *("probes", "validators"),
)
"""The middle: none of them knows the session or the command line."""
TOP = ("toolkit.session", "toolkit.cli")
BESIDE_THE_CLI = ("validators.plugin", "validators.conformance")
"""The pytest plugin and the suite that it runs are another front end: they stand where the command line stands."""

FORBIDDEN: dict[str, tuple[str, ...]] = {
    "toolkit.errors": (*PACKAGES,),
    "toolkit.model": (*LAYERS, *TOP),
    **dict.fromkeys(LAYERS, TOP),
    "toolkit.session": ("toolkit.cli",),
    # What a fault changes is the host; what is seen of it, and what that means, is none of its business.
    "toolkit.faults": ("probes", "validators", "toolkit.report", *TOP),
    "toolkit.host": ("toolkit.faults", *TOP),
    "toolkit.apply": ("toolkit.faults", *TOP),
    # Judging must work on another machine, from a saved run; probes produce evidence and never judge.
    "validators": ("probes", "toolkit.apply", "toolkit.faults", *TOP),
    "probes": ("validators", "toolkit.apply", "toolkit.faults", "toolkit.report", *TOP),
    "toolkit.report": ("probes", "toolkit.apply", *TOP),
    "toolkit.sources": ("probes", "validators", "toolkit.apply", "toolkit.faults", "toolkit.report", *TOP),
    "toolkit.allocation": ("probes", "validators", "toolkit.apply", "toolkit.faults", "toolkit.report", *TOP),
}
"""Package -> what no module of it may import."""


def within(module: str, package: str) -> bool:
    """Say whether a dotted name is the package or lies in it."""
    return module == package or module.startswith(package + ".")


def module_name(path: Path, root: Path) -> str:
    """``toolkit/model/cpuset.py`` -> ``toolkit.model.cpuset``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str, module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """Every module that a source text imports, with its line; relative names made absolute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*above, *([base] if base else [])])
            yield base, node.lineno
            # `from toolkit import cli` names a module too.
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def violations(root: Path) -> list[str]:
    """Imports against the direction, one line each."""
    found = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            module = module_name(path, root)
            for target, line in imported(path.read_text(), module, path.name == "__init__.py"):
                for owner, banned in FORBIDDEN.items():
                    if any(within(module, front) for front in BESIDE_THE_CLI):
                        continue
                    if within(module, owner) and not within(target, owner) and any(within(target, b) for b in banned):
                        found.append(f"{path.relative_to(root)}:{line}: {module} imports {target}")
    return sorted(set(found))


def circles(root: Path) -> set[frozenset[str]]:
    """Groups of modules that import each other, directly or not; imports for type checking only count as well."""
    files = {module_name(path, root): path for package in PACKAGES for path in (root / package).rglob("*.py")}
    direct = {
        module: {target for target, _ in imported(path.read_text(), module, path.name == "__init__.py")} & set(files)
        for module, path in files.items()
    }

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for target in direct[waiting.pop()] - seen:
                seen.add(target)
                waiting.append(target)
        return seen

    reach = {module: reached(module) for module in files}
    return {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in files
        if module in reach[module]
    }


def test_no_circle_of_imports() -> None:
    """Modules that import each other, lazily or for type checking too, are one module in several files."""
    assert circles(PROJECT) == set()


def test_a_circle_is_found(tmp_path: Path) -> None:
    """Through a third module, and by an import inside a function."""
    for name, line in (
        ("toolkit/a.py", "import toolkit.b"),
        ("toolkit/b.py", "def f():\n    from toolkit import c"),
        ("toolkit/c.py", "from toolkit.a import x"),
        ("toolkit/d.py", "import toolkit.a"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(line + "\n")
    assert circles(tmp_path) == {frozenset({"toolkit.a", "toolkit.b", "toolkit.c"})}


def test_imports_run_one_way() -> None:
    """No module imports against the direction that CONTRIBUTING.md draws."""
    assert violations(PROJECT) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("toolkit/model/x.py", "import toolkit.host.topology"),
        ("toolkit/host/x.py", "from toolkit.cli import main"),
        ("toolkit/host/x.py", "def f():\n    from toolkit import session"),
        ("toolkit/model/x.py", "from ..apply import sandbox"),
        ("validators/x.py", "import probes.switches.ledger"),
        ("probes/x.py", "from validators import registry"),
        ("toolkit/session/x.py", "from toolkit.cli import main"),
        ("toolkit/faults/x.py", "from toolkit.session import observe"),
        ("toolkit/apply/x.py", "from toolkit.faults import registry"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, path: str, line: str) -> None:
    """An import against the direction is reported, also a relative one and one inside a function."""
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(line + "\n")

    assert len(violations(tmp_path)) >= 1


def test_a_right_import_is_not_found(tmp_path: Path) -> None:
    """Imports along the direction are no violation."""
    file = tmp_path / "toolkit/cli/x.py"
    file.parent.mkdir(parents=True)
    file.write_text("import probes\nfrom validators import registry\nfrom . import main\n")

    assert violations(tmp_path) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_ours(package: str) -> None:
    """Each import package is this project's: PyPI has a `validators` of its own that would merge with it silently."""
    import importlib

    module = importlib.import_module(package)

    assert [Path(place).resolve() for place in module.__path__] == [PROJECT / package]
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == PROJECT / package / "__init__.py"
