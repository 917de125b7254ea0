"""The direction of imports, read from the source text, and that `validators` is this project's package.

Source: CONTRIBUTING.md, "The rules of the tree". Nothing is imported here to find out: an import inside a function
counts like one at the top.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.import_graph import imported, module_name

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("toolkit", "probes", "validators")

RANKS: dict[str, int] = {
    **dict.fromkeys(("toolkit", "toolkit.errors", "toolkit.presence", "toolkit.verbs"), 0),
    **dict.fromkeys(("toolkit.text", "toolkit.disk", "toolkit.regular_file"), 1),
    "toolkit.model": 2,
    "toolkit.kubernetes": 3,
    **dict.fromkeys(("toolkit.allocation", "toolkit.host", "toolkit.timeline", "toolkit.store", "toolkit.packed"), 4),
    **dict.fromkeys(("toolkit.bundle", "toolkit.sources", "toolkit.apply", "toolkit.faults", "probes"), 5),
    **dict.fromkeys(("validators", "validators.rules", "validators.registry"), 5),
    **dict.fromkeys(("toolkit.scenario_parts", "toolkit.scenario_references", "toolkit.scenario_file"), 6),
    # The rooms of the session; what stands beside them calls the engine.
    **dict.fromkeys(("toolkit.session.planning", "toolkit.session.windows"), 7),
    "toolkit.session.engine": 8,
    "toolkit.session.following": 9,
    **dict.fromkeys(("toolkit.session", "toolkit.fleet"), 10),
    "toolkit.report": 11,
    # Two front ends stand beside each other: the command line, and the pytest plugin with the suite that it runs.
    **dict.fromkeys(("toolkit.cli", "validators.plugin", "validators.conformance"), 12),
    "toolkit.__main__": 13,
}
"""Package or module -> rank; the longest name counts. What a module imports of the project has a lower rank, or is of
its own package. ``toolkit`` is its ``__init__`` alone: a module beside it needs a rank of its own."""
BESIDE: dict[tuple[str, str], str] = {
    ("toolkit.store", "toolkit.timeline"): "a result that is saved names what ran when no promise was known",
    ("toolkit.faults", "toolkit.apply"): "a fault changes the host through the journal, which takes it back",
    ("validators.rules", "validators"): "what rules ask of evidence; nothing of it knows a rule",
    ("validators.registry", "validators.rules"): "the list of the rules",
    ("validators.registry", "validators"): "what a rule is, and the loss rule",
    ("toolkit.fleet", "toolkit.session"): "which measures gates compare is said once, where a session's index is made",
    ("toolkit.scenario_file", "toolkit.scenario_references"): "one reader in three files",
    ("toolkit.scenario_file", "toolkit.scenario_parts"): "one reader in three files",
}
"""Imports within a rank, with the reason."""
MACHINE = ("toolkit.host", "toolkit.sources", "toolkit.apply", "toolkit.faults", "probes")
JUDGES = ("validators", "validators.rules", "validators.registry")
NEVER: dict[tuple[str, str], str] = {
    **{(name, "toolkit.host"): "a rule is a pure function: it judges a saved run elsewhere" for name in JUDGES},
    **{(name, "toolkit.allocation"): "no expectation comes from the model that is judged" for name in JUDGES},
    ("toolkit.session.planning", "probes"): "what is decided before a run is decided where nothing can be observed",
    **{("toolkit.session.windows", name): "arithmetic over results asks no machine" for name in MACHINE},
    ("probes", "toolkit.allocation"): "a witness sees what runs, not what was decided",
    ("toolkit.report", "probes"): "a saved run is rendered where nothing can be observed",
    ("toolkit.report", "toolkit.apply"): "and where nothing is changed",
    ("toolkit.report", "toolkit.faults"): "and where nothing is broken",
    **{
        ("toolkit.fleet", name): "a gate reads what was saved, and asks no machine"
        for name in (*MACHINE, "toolkit.allocation")
    },
}
"""Imports down the ranks that are wrong all the same, with the reason."""


def within(module: str, package: str) -> bool:
    """Say whether a dotted name is the package or lies in it."""
    return module == package or module.startswith(package + ".")


def module_file(name: str) -> Path:
    """``toolkit.store`` -> ``toolkit/store.py``."""
    return PROJECT / f"{name.replace('.', '/')}.py"


def package_of(module: str) -> str | None:
    """Return the longest name of the ranks that a module is, or lies in."""
    found = [name for name in RANKS if module == name or (name != "toolkit" and within(module, name))]
    return max(found, key=len, default=None)


def allowed(source: str, target: str) -> bool:
    """Say whether a package may import another."""
    if source == target or (source, target) in BESIDE:
        return True
    return RANKS[target] < RANKS[source] and (source, target) not in NEVER


def violations(root: Path) -> list[str]:
    """Imports against the ranks, and modules without a rank, one line each."""
    found = []
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        module = module_name(path, root)
        source = package_of(module)
        if source is None:
            found.append(f"{path.relative_to(root)}: {module} has no rank")
            continue
        for name, line in imported(path.read_text(), module, path.name == "__init__.py"):
            target = package_of(name)
            if target is not None and not allowed(source, target):
                found.append(f"{path.relative_to(root)}:{line}: {module} imports {name}")
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


def test_every_rank_and_exception_is_used() -> None:
    """Every rank is of a package that exists; an import within a rank that no module makes is no exception."""
    assert all((PROJECT / name.replace(".", "/")).is_dir() or module_file(name).is_file() for name in RANKS)
    made = {
        (package_of(module_name(path, PROJECT)), package_of(name))
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*.py")
        for name, _ in imported(path.read_text(), module_name(path, PROJECT), path.name == "__init__.py")
    }
    assert set(BESIDE) <= made
    assert all(RANKS[source] == RANKS[target] for source, target in BESIDE)
    assert all(RANKS[source] > RANKS[target] for source, target in NEVER)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("toolkit/model/x.py", "import toolkit.host.topology"),
        ("toolkit/host/x.py", "from toolkit.cli import main"),
        ("toolkit/host/x.py", "def f():\n    from toolkit import session"),
        ("toolkit/model/x.py", "from ..apply import sandbox"),
        ("toolkit/model/x.py", "from toolkit.kubernetes import pod"),
        ("toolkit/text/x.py", "from toolkit.model.cpuset import CpuSet"),
        ("toolkit/kubernetes/x.py", "from toolkit.allocation import node"),
        ("toolkit/session/planning/x.py", "from toolkit.session.engine import record"),
        ("toolkit/session/planning/x.py", "from probes import observer"),
        ("toolkit/session/windows/x.py", "from toolkit.session.engine import record"),
        ("toolkit/session/engine/x.py", "from toolkit.session.following import follower"),
        ("toolkit/session/engine/x.py", "from toolkit.session import conformance"),
        ("toolkit/session/following/x.py", "from toolkit.session import planted_run"),
        ("validators/x.py", "import probes.switches.ledger"),
        ("validators/x.py", "from validators.rules import noise"),
        ("validators/rules/x.py", "from validators import registry"),
        ("validators/rules/x.py", "from toolkit.host import topology"),
        ("probes/x.py", "from validators import registry"),
        ("toolkit/session/x.py", "from toolkit.cli import main"),
        ("toolkit/faults/x.py", "from toolkit.session import observe"),
        ("toolkit/apply/x.py", "from toolkit.faults import registry"),
        ("toolkit/host/x.py", "from probes import observer"),
        ("toolkit/host/x.py", "from toolkit import store"),
        ("toolkit/timeline/x.py", "from toolkit.host import topology"),
        ("toolkit/timeline/x.py", "from validators.queries import view"),
        ("toolkit/model/x.py", "from toolkit.timeline import held"),
        ("toolkit/allocation/x.py", "from toolkit.host import topology"),
        ("toolkit/session/x.py", "if TYPE_CHECKING:\n    from toolkit.report.table import render_table"),
        ("toolkit/report/x.py", "from probes import observer"),
        ("toolkit/cli/x.py", "from validators import plugin"),
        ("toolkit/store.py", "from toolkit.sources import claims_file"),
        ("toolkit/newcomer.py", ""),
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


def test_the_package_imports_nothing_of_the_repository() -> None:
    """What only tests and generators use is in no wheel, so nothing that ships may need it."""
    needed = [
        f"{path.relative_to(PROJECT)}:{line}: {name}"
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*.py")
        for name, line in imported(path.read_text(), module_name(path, PROJECT), path.name == "__init__.py")
        if name.partition(".")[0] in ("tests", "tools")
    ]
    assert needed == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_ours(package: str) -> None:
    """Each import package is this project's: PyPI has a `validators` of its own that would merge with it silently."""
    import importlib

    module = importlib.import_module(package)

    assert [Path(place).resolve() for place in module.__path__] == [PROJECT / package]
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == PROJECT / package / "__init__.py"
