"""``pinproof runs``: what is saved, and how it is removed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from toolkit.cli.common import json_option, print_json, runs_option, say
from toolkit.cli.ending import complain
from toolkit.disk import remove_directory
from toolkit.errors import InputError
from toolkit.model.result import Result
from toolkit.model.session import FILE
from toolkit.report.layout import fitted
from toolkit.store import load_result, load_session, window_paths
from toolkit.text import names
from toolkit.verbs import VERBS

DAY_S = 86_400.0
UNFINISHED = "unfinished"
MARKS = (FILE, "result.json", "evidence.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One directory of runs. :param kind: ``session``, ``run`` or ``windows``. :param written_s: when, since 1970."""

    name: str
    path: Path
    kind: str
    outcome: str
    started_at: str
    node: str
    bytes: int
    written_s: float


@click.group("runs", short_help=VERBS["runs"].does)
def command() -> None:
    """List the runs and sessions that are saved in a directory, and remove them."""


@command.command("list")
@runs_option
@json_option
def list_(runs: Path, as_json: bool) -> None:
    """List what is saved, the oldest first."""
    found = saved_in(runs)
    if as_json:
        print_json([{**_data(one), "path": names.from_path(one.path)} for one in found])
        return
    if not found:
        say(f"nothing is saved in {names.from_path(runs)}")
        return
    rows = [(one.name, one.kind, one.outcome, one.started_at[:19], one.node, f"{one.bytes / 1e6:.1f}") for one in found]
    say(fitted(rows, ("name", "kind", "outcome", "started", "node", "MB"), flexible=(0, 4), shares=(0.7, 0.3)))


@command.command("rm")
@click.argument("names_", nargs=-1, metavar="[NAME]...")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Remove all but the newest N.")
@click.option("--older-than", "days", type=click.FloatRange(0), metavar="DAYS", help="Remove what is older than DAYS.")
@click.option("--dry-run", is_flag=True, help="Name what would be removed, and leave it.")
@runs_option
def rm(names_: tuple[str, ...], keep: int | None, days: float | None, dry_run: bool, runs: Path) -> None:
    """Remove runs and sessions by NAME, or by age. What is unfinished is removed by its name alone.

    Exit code: 2 if one of them cannot be removed, or there is none of that name.
    """
    if bool(names_) == (keep is not None or days is not None):
        raise click.UsageError("give NAMEs, or --keep or --older-than")
    found = saved_in(runs)
    chosen = _named(found, names_, runs) if names_ else _surplus(found, keep, days)
    code = 0
    for one in chosen:
        try:
            if not dry_run:
                remove_directory(one.path)
            say(f"{'would remove' if dry_run else 'removed'} {one.name}")
        except InputError as error:
            complain(str(error))
            code = InputError.exit_code
    click.get_current_context().exit(code)


def _named(found: Sequence[Saved], wanted: Sequence[str], runs: Path) -> list[Saved]:
    by_name = {one.name: one for one in found}
    for name in wanted:
        if name not in by_name:
            raise InputError(names.from_path(runs), f"no run {name[:80]!r}", "a name that `pinproof runs list` prints")
    return [by_name[name] for name in dict.fromkeys(wanted)]


def _surplus(found: Sequence[Saved], keep: int | None, days: float | None) -> list[Saved]:
    ended = [one for one in found if one.outcome != UNFINISHED]
    old = [] if days is None else [one for one in ended if time.time() - one.written_s > days * DAY_S]
    many = [] if keep is None else ended[: max(0, len(ended) - keep)]
    return [one for one in ended if one in old or one in many]


def saved_in(runs: Path) -> list[Saved]:
    """Return the runs and sessions in a directory, the oldest first; none where there is no such directory.

    :raises InputError: it cannot be read.
    """
    try:
        paths = [] if not os.path.lexists(runs) else [path for path in runs.iterdir() if not path.is_symlink()]
        found = [one for path in paths if path.is_dir() and (one := _saved(path)) is not None]
    except OSError as error:
        raise InputError(names.from_path(runs), error.strerror or str(error), "a directory of runs") from None
    return sorted(found, key=lambda one: (one.written_s, one.name))


def _saved(path: Path) -> Saved | None:
    """Return what a directory holds; ``None``: nothing of pinproof's.

    :raises OSError: it cannot be read.
    """
    inside = {one.name for one in path.iterdir()}
    windows = window_paths(path)
    packed = any(name.endswith(".tar.gz") for name in inside) and path.name.count("-conformance-")
    if path.name.startswith(".") or not (inside & set(MARKS) or windows or packed):
        return None
    kind = "session" if FILE in inside or packed else "windows" if windows else "run"
    outcome, started_at, node = UNFINISHED, "", ""
    try:
        if FILE in inside:
            session = load_session(path / FILE)
            outcome, started_at, node = str(session.outcome), session.started_at, session.identity.node
        elif "result.json" in inside:
            result = load_result(path / "result.json")
            outcome, started_at, node = str(result.outcome), result.started_at, _node(result)
    except InputError:
        outcome = "unreadable"
    size = sum(file.lstat().st_size for file in path.rglob("*"))
    return Saved(
        name=names.from_path(path.name),
        path=path,
        kind=kind,
        outcome=outcome,
        started_at=started_at,
        node=node,
        bytes=size,
        written_s=path.stat().st_mtime,
    )


def _node(result: Result) -> str:
    identity = result.environment.identity
    return "" if identity is None else identity.node


def _data(one: Saved) -> dict[str, object]:
    return {
        "name": one.name,
        "kind": one.kind,
        "outcome": one.outcome,
        "started_at": one.started_at,
        "node": one.node,
        "bytes": one.bytes,
    }
