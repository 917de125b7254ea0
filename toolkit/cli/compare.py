"""``pinproof compare``: the regression gate between two runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolkit.cli.common import json_option, print_json
from toolkit.cli.saved import result_of
from toolkit.model.serde import to_data
from toolkit.report.compare import compare
from toolkit.report.comparison_table import render_comparison
from toolkit.verbs import VERBS


@click.command("compare", short_help=VERBS["compare"].does)
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@json_option
def command(base: Path, new: Path, as_json: bool) -> None:
    """Compare the run NEW with the run BASE: run directories or result.json files.

    Run directories are judged again; saved verdicts are used only where no evidence exists.

    Exit code: 1 if a verdict is worse than before or gone, if a new verdict failed or is undecided, or if NEW has a
    blind spot that BASE has not; 2 if a run cannot be read; else 0. A failure in both runs is no regression.
    """
    before, after = result_of(base), result_of(new)
    comparison = compare(
        before.result,
        after.result,
        scenarios=(before.scenario, after.scenario),
        promises=(before.claims, after.claims),
    )
    if as_json:
        print_json(to_data(comparison))
    else:
        click.echo(render_comparison(comparison), nl=False)
    sys.exit(1 if comparison.regressed else 0)
