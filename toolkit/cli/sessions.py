"""Sessions and packed runs, for verbs that take a saved run: where it is, and what it comes to when judged again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.cli.common import runs_place, say_line
from toolkit.model.serde import printable_json, to_data
from toolkit.model.session import FILE
from toolkit.packed import unpacked
from toolkit.report.conformance_junit import render_junit
from toolkit.report.conformance_table import render_conformance
from toolkit.report.text import printable_lines
from toolkit.session.saved_session import JudgedSession, judge_session


def located(path: Path) -> Path:
    """Return where a saved run is: the path, or a run of that name where runs are saved unless told otherwise."""
    if not os.path.lexists(path) and path.name == str(path):
        place = runs_place() / path
        if os.path.lexists(place):
            return place
    return path


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Yield the directory of a saved run, which may be packed, or known by its name alone.

    :raises InputError: as :func:`toolkit.packed.unpacked`.
    """
    with unpacked(located(path)) as folder:
        yield folder


def is_session(path: Path) -> bool:
    """Say whether a path is a session: its directory, or its ``session.json``."""
    return path.name == FILE or os.path.lexists(path / FILE)


def render_session(judged: JudgedSession, kind: str, *, verbose: bool) -> str:
    """Return a session as ``table``, ``json`` or ``junit``, as `pinproof conformance` prints it."""
    if kind == "junit":
        return render_junit(judged.results, judged.session.identity)
    if kind == "json":
        data = {
            "schema": "pinproof.conformance/1",
            "outcome": judged.outcome.value,
            "session": judged.session.session,
            "scenarios": [to_data(result) for result in judged.results],
        }
        return printable_json(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"
    cut = "" if judged.session.complete else "This session was cut short: not every scenario that fits was run.\n\n"
    head = f"{cut}Session {judged.session.session} on {judged.session.identity.node or 'a node without a name'}\n\n"
    return printable_lines(head + render_conformance(judged.results, judged.session.duration_s, verbose=verbose)) + "\n"


def judged_session(path: Path) -> JudgedSession:
    """Judge every run of a session again; report on standard error where the index says something else.

    :raises InputError: as :func:`toolkit.session.saved_session.judge_session`.
    """
    judged = judge_session(path)
    for note in judged.notes:
        say_line(f"pinproof: {note}", err=True)
    return judged
