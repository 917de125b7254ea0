"""``pinproof report``: a saved run or session as a table, JSON, JUnit XML, TAP, or Sonobuoy's results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from toolkit.cli.bundles import handed_on
from toolkit.cli.common import coloured, json_option, verbose_option
from toolkit.cli.ending import leave, write_or_print
from toolkit.cli.saved import judged_again
from toolkit.cli.sessions import is_session, judged_session, located, opened
from toolkit.model.identity import Identity
from toolkit.model.result import Result
from toolkit.model.serde import printable_json
from toolkit.model.verdict import Outcome
from toolkit.report import page
from toolkit.report.cases import Group, group_of_run, groups_of_session, render_sonobuoy, render_tap
from toolkit.report.junit import render_junit
from toolkit.report.result import result_data
from toolkit.report.session_formats import render_session
from toolkit.report.table import render_table
from toolkit.verbs import VERBS


def _json(result: Result) -> str:
    return printable_json(json.dumps(result_data(result), indent=2, ensure_ascii=False)) + "\n"


FORMATS = {"table": render_table, "json": _json, "junit": render_junit}
LISTS = ("tap", "sonobuoy")
"""Formats of other programs' lists of checks."""


@click.command("report", short_help=VERBS["report"].does)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice([*FORMATS, *LISTS]),
    default="table",
    show_default=True,
    help="What to render.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@verbose_option
@json_option
def command(run: Path, kind: str, output: Path | None, verbose: bool, as_json: bool) -> None:
    """Render RUN: a run, a packed run, a session or a bundle, as judge takes them.

    It is judged again first, and the exit code is that of judge.

    Where the output file cannot be written the report is printed instead; the exit code is 2 unless something failed.
    """
    kind = "json" if as_json else kind
    with nullcontext() if output is None else page.plain(), handed_on(located(run)) as place:
        outcome, text = _rendered(place, kind, run.name, verbose=verbose)
    code = 0
    if output is None:
        click.echo(coloured(text) if kind == "table" else text, nl=False)
    else:
        code = write_or_print(output, text)
    leave(outcome, code)


def _rendered(place: Path, kind: str, name: str, *, verbose: bool) -> tuple[Outcome, str]:
    if is_session(place):
        judged = judged_session(place)
        if kind in LISTS:
            return judged.outcome, _list(kind, groups_of_session(judged.results), judged.session.identity)
        return judged.outcome, render_session(judged, kind, verbose=verbose)
    with opened(place) as folder:
        result = judged_again(folder).result
    if kind in LISTS:
        return result.outcome, _list(kind, [group_of_run(result, name)], result.environment.identity)
    # The other formats hold every reason anyway.
    return result.outcome, render_table(result, verbose=verbose) if kind == "table" else FORMATS[kind](result)


def _list(kind: str, groups: Sequence[Group], identity: Identity | None) -> str:
    return render_tap(groups) if kind == "tap" else render_sonobuoy(groups, "" if identity is None else identity.node)
