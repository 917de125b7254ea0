"""``pinproof report``: a saved run as a table, JSON or JUnit XML."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import click

from toolkit.cli.common import coloured, json_option, verbose_option
from toolkit.cli.ending import leave, write_or_print
from toolkit.cli.saved import run_result
from toolkit.cli.sessions import is_session, judged_session, located, opened, render_session
from toolkit.model.result import Result
from toolkit.model.serde import printable_json
from toolkit.model.verdict import Outcome
from toolkit.report import page
from toolkit.report.junit import render_junit
from toolkit.report.result import result_data
from toolkit.report.table import render_table
from toolkit.verbs import VERBS


def _json(result: Result) -> str:
    return printable_json(json.dumps(result_data(result), indent=2, ensure_ascii=False)) + "\n"


FORMATS = {"table": render_table, "json": _json, "junit": render_junit}


@click.command("report", short_help=VERBS["report"].does)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--format", "kind", type=click.Choice(list(FORMATS)), default="table", show_default=True, help="What to render."
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@verbose_option
@json_option
def command(run: Path, kind: str, output: Path | None, verbose: bool, as_json: bool) -> None:
    """Render RUN: a run, a packed run or a session, as judge takes them.

    It is judged again first, and the exit code is that of judge.

    Where the output file cannot be written the report is printed instead; the exit code is 2 unless something failed.
    """
    kind = "json" if as_json else kind
    with nullcontext() if output is None else page.plain():
        outcome, text = _rendered(located(run), kind, verbose=verbose)
    code = 0
    if output is None:
        click.echo(coloured(text) if kind == "table" else text, nl=False)
    else:
        code = write_or_print(output, text)
    leave(outcome, code)


def _rendered(place: Path, kind: str, *, verbose: bool) -> tuple[Outcome, str]:
    if is_session(place):
        judged = judged_session(place)
        return judged.outcome, render_session(judged, kind, verbose=verbose)
    with opened(place) as folder:
        result, _ = run_result(folder)
    # The other formats hold every reason anyway.
    return result.outcome, render_table(result, verbose=verbose) if kind == "table" else FORMATS[kind](result)
