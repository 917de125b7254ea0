"""``pinproof compare``: the regression gate between two runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolkit.cli.common import json_option, print_json
from toolkit.model.result import Result, make_result
from toolkit.model.serde import to_data
from toolkit.report.compare import compare
from toolkit.report.comparison_table import render_comparison
from toolkit.store import load_result, load_run
from validators.registry import judge


@click.command("compare", short_help="Compare two runs: the regression gate.")
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@json_option
def command(base: Path, new: Path, as_json: bool) -> None:
    """Compare the run NEW with the run BASE: run directories or result.json files.

    Exit code 1 if a verdict is new and not good, or worse than before, or if something can no longer be seen; else 0.
    What failed in both is no regression.
    """
    comparison = compare(_result(base), _result(new))
    if as_json:
        print_json(to_data(comparison))
    else:
        click.echo(render_comparison(comparison), nl=False)
    sys.exit(1 if comparison.regressed else 0)


def _result(path: Path) -> Result:
    """Take the saved verdicts; a run directory without any is judged."""
    if path.is_dir() and not (path / "result.json").exists():
        saved = load_run(path)
        return make_result(saved.evidence, judge(saved.claims, saved.evidence))
    return load_result(path)
