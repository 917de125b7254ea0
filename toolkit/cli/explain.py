"""``pinproof explain``: one rule's page."""

from __future__ import annotations

import click

from toolkit.cli.common import json_option, print_json
from toolkit.model.blind_spots import BLINDED_ALL, BLINDED_BY
from toolkit.model.measures import Kind
from toolkit.model.serde import to_data
from toolkit.report.layout import paragraph
from toolkit.session.planning.admissions import PAGE
from toolkit.verbs import VERBS
from validators.registry import rule_named
from validators.rule import RuleDoc

TITLES = {
    "claim": "What it judges",
    "how": "How",
    "tolerance": "Tolerance and its derivation",
    "negative_control": "How to break it on purpose (must come out failed)",
    "source": "Source",
}


@click.command("explain", short_help=VERBS["explain"].does)
@click.argument("rule")
@json_option
def command(rule: str, as_json: bool) -> None:
    """Print what RULE checks, how, with what tolerance and why, its sources, and how to break it on purpose.

    `pinproof rules` lists the rules.
    """
    doc = PAGE if rule == PAGE.id else rule_named(rule).doc
    if as_json:
        data = to_data(doc)
        assert isinstance(data, dict)
        print_json({**data, "undecided_when": dict(_reasons(doc))})
    else:
        click.echo(render_page(doc))


def _reasons(doc: RuleDoc) -> list[tuple[str, str]]:
    if not doc.witnesses:
        return []
    reasons = [(str(witness), BLINDED_BY[witness]) for witness in doc.witnesses]
    reasons.append(("any", BLINDED_ALL))
    spared = rule_named(doc.id).spared.__doc__
    return [*reasons, ("not asked", spared)] if spared else reasons


def _undecided(doc: RuleDoc) -> str:
    """Return what a witness of the rule must not miss."""
    lines = [paragraph(f"{name}: {text}", "  ", "    ") for name, text in _reasons(doc)]
    return "What makes it undecided instead of passed\n" + "\n".join(lines)


def _measures(doc: RuleDoc) -> str:
    """Return a line for each measure that gates compare, and the names of the others by kind."""
    lines = [
        f"{one.name}: {one.kind}, better is {one.better}: {one.relative or 0:.0%}, {one.absolute:,} {one.unit}".strip()
        for one in doc.measures
        if one.gated
    ]
    for kind in Kind:
        names = ", ".join(one.name for one in doc.measures if one.kind is kind and not one.gated)
        lines += [f"{kind}: {names}"] if names else []
    return "\n".join(paragraph(line, "  ", "    ") for line in lines)


def render_page(doc: RuleDoc) -> str:
    """Return the page of a rule."""
    parts = [doc.id]
    for name, title in TITLES.items():
        paragraphs = getattr(doc, name).split("\n\n")
        parts.append("\n".join([title, "\n\n".join(paragraph(one, "  ") for one in paragraphs)]))
    if doc.witnesses:
        parts.append(f"Witnesses\n{paragraph(', '.join(doc.witnesses), '  ')}")
        parts.append(_undecided(doc))
    if doc.measures:
        parts.append("Measures of its verdicts (kind; a gate looks at differences beyond)\n" + _measures(doc))
    return "\n\n".join(parts)
