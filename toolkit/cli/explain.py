"""``pinproof explain``: one rule's page."""

from __future__ import annotations

import textwrap

import click

from toolkit.cli.common import json_option, print_json
from toolkit.model.serde import to_data
from toolkit.report.table import WIDTH
from validators.registry import rule_named
from validators.rule import RuleDoc

TITLES = {
    "claim": "What it judges",
    "how": "How",
    "tolerance": "Tolerance and its derivation",
    "negative_control": "How to break it on purpose (must come out failed)",
    "source": "Source",
}


@click.command("explain", short_help="Explain what a rule checks and how to break it.")
@click.argument("rule")
@json_option
def command(rule: str, as_json: bool) -> None:
    """Print what RULE checks, how, with what tolerance and why, its sources, and how to break it on purpose."""
    doc = rule_named(rule).doc
    if as_json:
        print_json(to_data(doc))
    else:
        click.echo(render_page(doc))


def render_page(doc: RuleDoc) -> str:
    """Return the page of a rule."""
    parts = [doc.id]
    for name, title in TITLES.items():
        body = textwrap.fill(
            getattr(doc, name), WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        parts.append(f"{title}\n{body}")
    parts.append("Witnesses\n  " + ", ".join(doc.witnesses))
    return "\n\n".join(parts)
