"""Sessions and packed runs, for verbs that take a saved run: where it is, and what it comes to when judged again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.cli.common import called, runs_place, say_line
from toolkit.model.session import FILE
from toolkit.packed import unpacked
from toolkit.session.saved_session import JudgedSession, Look, judge_session


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
    place = located(path)
    with unpacked(place) as folder:
        if folder == place:
            yield folder
        else:
            with called(folder, place):
                yield folder


def is_session(path: Path) -> bool:
    """Say whether a path is a session: its directory, or its ``session.json``."""
    return path.name == FILE or os.path.lexists(path / FILE)


def judged_session(path: Path, look: Look | None = None, look_at_controls: Look | None = None) -> JudgedSession:
    """Judge every run of a session again; report on standard error where the index says something else.

    :raises InputError: as :func:`toolkit.session.saved_session.judge_session`.
    """
    judged = judge_session(path, look, look_at_controls)
    for note in judged.notes:
        say_line(f"pinproof: {note}", err=True)
    return judged
