"""``pinproof doctor``: what this host supports, and how to get what is missing."""

from __future__ import annotations

import sys

import click

from toolkit.cli.common import print_json, say
from toolkit.host.capabilities import Capability, HostReport, read_capabilities
from toolkit.model.serde import to_data
from toolkit.report.layout import fitted, paragraph, table

_CANNOT_RUN = 4


@click.command("doctor", short_help="Show what this host supports, and how to get what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def command(as_json: bool) -> None:
    """Test what each verb needs; where something is missing, print the reason and the remedy.

    Changes nothing. Exit code: 0 if `run` can work here, 4 if it cannot.
    """
    report = read_capabilities()
    if as_json:
        data = {"schema": "pinproof.doctor/1", "can_run": report.can_run, **_plain(report)}
        print_json(data)
    else:
        say(render_report(report))
    if not report.can_run:
        sys.exit(_CANNOT_RUN)


def render_report(report: HostReport) -> str:
    """Return the two tables and, for each "no", its remedy."""
    rows = [(c.name, _state(c), c.detail) for c in report.capabilities]
    facts = fitted(rows, ("capability", "here", "found"), (2,), (1.0,))
    works = [(verb, "no" if missing else "yes", ", ".join(missing)) for verb, missing in report.verbs.items()]
    verbs = table(works, ("verb", "works", "missing"))
    remedies = [paragraph(f"{c.name}: {c.remedy}", "  ", "    ") for c in report.capabilities if not c.available]
    how = ["How to get what is missing:", *remedies] if remedies else []
    return "\n\n".join(part for part in (facts, verbs, "\n".join(how), _conclusion(report)) if part)


def _state(capability: Capability) -> str:
    if capability.available:
        return "yes"
    return "NO" if "run" in capability.needed_by else "no (optional)"


def _conclusion(report: HostReport) -> str:
    if report.can_run:
        return "pinproof run works here."
    return f"pinproof run cannot work here: {', '.join(report.verbs['run'])} missing."


def _plain(report: HostReport) -> dict[str, object]:
    data = to_data(report)
    assert isinstance(data, dict)
    return data
