"""One engine: what observes does it through a session, so that nothing is judged that was not serialised and read back.

Source: ``docs/principles.md``. Read from the source text, like the direction of imports.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ENGINE = "toolkit/session/engine"
ALLOWED = {
    "recorded": {f"{ENGINE}/session.py", f"{ENGINE}/consecutive.py"},
    "observation": {f"{ENGINE}/session.py"},
    "Observation": {f"{ENGINE}/observe.py"},
    "observing": {f"{ENGINE}/observe.py"},
    "Observer": {"probes/loaded.py"},
    "end_window": {f"{ENGINE}/observe.py", "probes/observer.py"},
    "close_window": set(),
    "turn_window": {f"{ENGINE}/observe.py"},
}
"""Function -> the files that may call it; an observer of one's own is for tests."""


def calls(source: str) -> Iterator[str]:
    """Yield the last name of everything that a source text calls."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr


@functools.cache
def called() -> dict[str, frozenset[str]]:
    """Return file -> what it calls, read once for all names."""
    return {
        str(path.relative_to(PROJECT)): frozenset(calls(path.read_text()))
        for package in ("toolkit", "probes", "validators")
        for path in (PROJECT / package).rglob("*.py")
    }


@pytest.mark.parametrize("name", ALLOWED)
def test_only_the_engine_calls(name: str) -> None:
    """Each step of a window has one caller; a second loop would show up here."""
    found = {path for path, names in called().items() if name in names}

    assert bool(found) == bool(ALLOWED[name])
    assert found <= ALLOWED[name], f"{name}() is called by {', '.join(sorted(found - ALLOWED[name]))}"


@pytest.mark.parametrize("name", ["Verdict", "with_verdicts", "with_stages"])
def test_the_command_line_makes_no_verdict(name: str) -> None:
    """It parses, calls and prints: what it says of a run, a function says that every caller can have."""
    found = {path for path, names in called().items() if name in names}

    assert found
    assert {path for path in found if path.startswith("toolkit/cli/")} == set()
