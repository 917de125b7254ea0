"""``pinproof cleanup``: undo what dead runs left behind."""

from __future__ import annotations

import sys

import click

from toolkit.apply.runs import CleanupReport, cleanup
from toolkit.cli.common import say
from toolkit.errors import ApplyError
from toolkit.model.serde import to_json
from toolkit.text.names import printable
from toolkit.verbs import VERBS


@click.command("cleanup", short_help=VERBS["cleanup"].does)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(as_json: bool) -> None:
    """Remove cgroups, processes and files of runs that were killed, and restore what they changed.

    Works from the journals in /run/pinproof; those of user N are in /run/pinproof-N, which that user
    cleans up. Live runs are left alone, and nothing is touched that no journal names.

    Exit code: 0 everything was undone, 4 something could not be undone.
    """
    report = cleanup()
    if as_json:
        click.echo(to_json(report, indent=2))
    else:
        say(render_report(report))
    if report.problems:
        sys.exit(ApplyError.exit_code)


def render_report(report: CleanupReport) -> str:
    """Return what was done, one line for each run and problem."""
    lines = [f"removed  {run}" for run in report.removed]
    lines += [f"alive    {run} (left alone)" for run in report.alive]
    lines += [f"PROBLEM  {problem}" for problem in report.problems]
    return "\n".join(map(printable, lines)) or "nothing to clean up"
