"""``pinproof rules``: every rule, one line each."""

from __future__ import annotations

import click

from toolkit.cli.common import json_option, print_json
from toolkit.model.serde import to_data
from toolkit.report.layout import fitted, paragraph
from toolkit.session.planning.admissions import ADMISSION
from toolkit.verbs import VERBS
from validators.registry import RULES


@click.command("rules", short_help=VERBS["rules"].does)
@json_option
def command(as_json: bool) -> None:
    """List the rules that runs are judged by."""
    if as_json:
        print_json([to_data(rule.doc) for rule in RULES])
        return
    rows = [(rule.id, rule.doc.claim, ", ".join(rule.doc.witnesses)) for rule in RULES]
    click.echo(fitted(rows, ("rule", "what it judges", "witnesses"), (1, 2), (0.75, 0.25)))
    click.echo("\n" + paragraph(f"`conformance` judges `{ADMISSION}` as well: which pods the plan takes."))
    click.echo("pinproof explain RULE gives its method, its tolerance and how to break it.")
