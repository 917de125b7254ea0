"""``pinproof compare``: the regression gate between two groups of runs or sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

import click

from toolkit import presence
from toolkit.cli.bundles import handed_on
from toolkit.cli.common import json_option, print_json, say_line
from toolkit.cli.ending import leave, write_or_print
from toolkit.cli.html import html_option, write_page
from toolkit.cli.saved import result_of
from toolkit.cli.sessions import is_session, judged_session, located, opened
from toolkit.errors import InputError
from toolkit.fleet.comparison import Asked, compare, differences
from toolkit.fleet.observed import Observed, of_result, of_session
from toolkit.fleet.policy import Policy, parse_policy
from toolkit.fleet.values import Comparison
from toolkit.model.serde import read_text, to_data
from toolkit.model.session import FILE
from toolkit.packed import SUFFIX
from toolkit.report.comparison_junit import render_junit
from toolkit.report.comparison_markdown import render_markdown
from toolkit.report.comparison_table import render_comparison
from toolkit.session.index import gated_measures, promises_digest
from toolkit.store import load_session, window_paths
from toolkit.text.wording import and_more
from toolkit.verbs import VERBS
from validators.registry import measure_of

MAX_DEPTH = 4
"""Levels of directories in which runs and sessions are looked for: results, node, session, runs."""
MAX_FOUND = 100_000
MAX_POLICY_BYTES = 2 * 1024 * 1024
MANY = click.Path(path_type=Path)


@click.command("compare", short_help=VERBS["compare"].does)
@click.argument("pair", metavar="[BASE NEW]", type=MANY, nargs=-1)
@click.option("--base", "bases", type=MANY, multiple=True, help="One more of BASE; repeatable.")
@click.option("--new", "news", type=MANY, multiple=True, help="One more of NEW; repeatable.")
@click.option(
    "--confirm", "confirms", type=MANY, multiple=True, help="NEW once more: what is suspect must come again in it."
)
@click.option(
    "--control", metavar="NODE", multiple=True, help="Nodes that were not rolled out, as a pattern; repeatable."
)
@click.option("--policy", type=MANY, help="Smallest effects, repeats and waivers (YAML): docs/gate.md.")
@click.option("--require", type=click.Choice(["passed"]), help="All of NEW must have passed, also what failed before.")
@click.option("--across", is_flag=True, help="Compare although scenarios, promises or hardware differ.")
@click.option("--junit", type=MANY, help="Also write JUnit XML to this file: one suite a node.")
@click.option("--markdown", type=MANY, help="Also write Markdown to this file, at most 60 KB: for a pull request.")
@html_option
@json_option
def command(
    pair: tuple[Path, ...],
    bases: tuple[Path, ...],
    news: tuple[Path, ...],
    confirms: tuple[Path, ...],
    control: tuple[str, ...],
    policy: Path | None,
    require: str | None,
    across: bool,
    junit: Path | None,
    markdown: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Compare NEW with BASE: runs, packed runs, sessions, bundles, result.json files, or directories of them.

    What has evidence is judged again; saved verdicts are used only where no evidence exists. Measures need repeats: of
    one node at least seven runs of each, by turns; of a rollout seven nodes, before and after.

    Exit code: 1 if a verdict is worse than before or gone, if a new one failed or is undecided, if a scenario or a
    control is lost, if NEW has a blind spot that BASE has not, or if a measure is worse; 2 if they cannot be compared;
    3 if a measure is suspect, and --confirm has to show it; else 0. A failure in both is no regression.
    """
    if len(pair) not in (0, 2) or not (pair or (bases and news)):
        raise click.UsageError("give BASE and NEW, or --base and --new as often as needed")
    at = datetime.now(UTC)
    told = Policy() if policy is None else parse_policy(_text(policy), str(policy), at)
    comparison = compared(
        (*pair[:1], *bases),
        (*pair[1:], *news),
        confirms,
        control=control,
        at=at,
        policy=told,
        require_passed=require is not None,
        across=across,
    )
    codes = [
        write_or_print(path, render(comparison))
        for path, render in ((junit, render_junit), (markdown, render_markdown))
        if path is not None
    ]
    codes.append(write_page(html, lambda: _page(comparison, html)))
    if as_json:
        print_json(to_data(comparison))
    else:
        click.echo(render_comparison(comparison), nl=False)
    leave(comparison.outcome, *codes)


def _page(comparison: Comparison, path: Path | None) -> str:
    from toolkit.report.html.comparison import comparison_page

    return comparison_page(comparison, "" if path is None else path.stem)


def compared(
    bases: Sequence[Path],
    news: Sequence[Path],
    confirms: Sequence[Path] = (),
    *,
    control: tuple[str, ...] = (),
    at: datetime | None = None,
    policy: Policy | None = None,
    require_passed: bool = False,
    across: bool = False,
) -> Comparison:
    """Return what differs between runs or sessions that paths name, judged again.

    :raises InputError: one cannot be read, or they cannot be compared.
    """
    base, new, confirm = _sides(bases, news, confirms)
    asked = Asked(
        base=base,
        new=new,
        confirm=confirm,
        control=control,
        kind_of=measure_of,
        at=at or datetime.now(UTC),
        policy=policy or Policy(),
        require_passed=require_passed,
        across=across,
    )
    _refuse(asked, across=across)
    return replace(compare(asked), bases=tuple(map(str, bases)), news=tuple(map(str, news)))


def _text(path: Path) -> str:
    return read_text(path, "a gate's policy", MAX_POLICY_BYTES)


def _refuse(asked: Asked, *, across: bool) -> None:
    """End where the two cannot be compared, and where a pattern of nodes names none."""
    nodes = {one.node for one in asked.new}
    for pattern in asked.control:
        if not any(fnmatchcase(node, pattern) for node in nodes):
            raise InputError("--control", f"{pattern!r} is no node of NEW", "one of " + ", ".join(sorted(nodes))[:200])
    found = differences(asked)
    if found and not across:
        told = "; ".join(f"{one.name}: {one.before} and {one.after}" for one in found)
        raise InputError("BASE and NEW cannot be compared", told, "the same (--across compares them all the same)")


def _sides(*sides: Sequence[Path]) -> list[list[Observed]]:
    """Read all runs and sessions that paths name, of each side."""
    unproven: list[Path] = []
    found = [[_read(place, unproven) for path in side for place in _places(located(path))] for side in sides]
    if unproven:
        more = and_more(len(unproven) - 1)
        note = "there is no evidence beside it: its index is taken as it is"
        say_line(f"pinproof: {unproven[0]}{more}: {note}", err=True)
    return found


def _places(path: Path) -> Iterable[Path]:
    """Yield the runs and sessions that a path names: itself, or all below a directory that is neither."""
    if not presence.is_dir(path) or _is_saved(path):
        return [path]
    found = sorted(_below(path, _is_saved, MAX_DEPTH))
    if not found:
        return [path]  # read, and refused, as a run
    if len(found) > MAX_FOUND:
        raise InputError(str(path), f"{len(found)} runs", f"at most {MAX_FOUND}")
    return found


def _is_saved(path: Path) -> bool:
    """Say whether a path is a session, a run, or a packed run."""
    if path.name.endswith(SUFFIX):
        return True
    if not presence.is_dir(path):
        return False
    names = ("evidence.json", "result.json", "claims.json")
    return is_session(path) or any(os.path.lexists(path / name) for name in names) or bool(window_paths(path))


def _below(path: Path, wanted: Callable[[Path], bool], depth: int) -> Iterable[Path]:
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a directory of runs or sessions") from None
    for entry in entries:
        if os.path.islink(entry):  # noqa: PTH114 an answer, never an error
            continue
        if wanted(entry):
            yield entry
        elif depth and presence.is_dir(entry):
            yield from _below(entry, wanted, depth - 1)


def _read(path: Path, unproven: list[Path]) -> Observed:
    with handed_on(path) as place:
        if is_session(place):
            return _session(place.parent if place.name == FILE else place, unproven)
        with opened(place) as folder:
            found = result_of(folder)
    asked, claims = found.scenario, found.claims
    return of_result(
        found.result,
        gated_measures(found.result.verdicts),
        path=str(path),
        scenario="" if asked is None else asked.name,
        claims=claims,
        promises="" if asked is None or claims is None else promises_digest(asked, claims),
    )


def _session(folder: Path, unproven: list[Path]) -> Observed:
    """Judge a session's runs again; where none of them lies beside it (it was fetched alone) take its index."""
    session = load_session(folder / FILE)
    if not any(os.path.lexists(folder / name) for name in session.files if "/" not in name):
        unproven.append(folder / FILE)
        return of_session(session, path=str(folder))
    judged = judged_session(folder)
    results = {one.name: (one, gated_measures(one.verdicts)) for one in judged.results}
    return of_session(judged.session, path=str(folder), judged=results)
