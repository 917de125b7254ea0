"""``pinproof judge``: verdicts about a saved run, on any machine."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.common import json_option, print_json
from toolkit.cli.ending import leave
from toolkit.cli.saved import run_result
from toolkit.report.result import result_data
from toolkit.report.table import render_table


@click.command("judge", short_help="Judge a saved run again.")
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def command(run: Path, as_json: bool) -> None:
    """Judge the claims and the evidence of the directory RUN; needs no root and changes nothing.

    Saved verdicts are not believed: where they differ from what the evidence says, that is reported on standard error.

    Exit code: 0 all passed or skipped, 1 something failed, 2 the run cannot be read, 3 something is undecided.
    """
    result, _ = run_result(run)
    if as_json:
        print_json(result_data(result))
    else:
        click.echo(render_table(result), nl=False)
    leave(result.outcome)
