"""Findings about a machine's configuration, for people and as data."""

from __future__ import annotations

from typing import Any

from toolkit.model.isolation import CpuRoles, Finding
from toolkit.model.serde import to_data
from toolkit.model.verdict import Outcome
from toolkit.model.wording import cpus_text
from toolkit.report.layout import paragraph

SCHEMA = "pinproof.isolation/1"


def finding_text(finding: Finding) -> str:
    """Return one finding: its id and outcome, what was found, what it breaks, what to do."""
    lines = [
        paragraph(f"{finding.outcome.value}  {finding.id}", "", "  "),
        paragraph(f"found: {finding.path}: {finding.value}", "  ", "    "),
        paragraph(f"breaks: {finding.breaks}", "  ", "    "),
        paragraph(f"do: {finding.remedy}", "  ", "    "),
    ]
    return "\n".join(lines)


def isolation_text(roles: CpuRoles, found: tuple[Finding, ...]) -> str:
    """Return the report."""
    head = paragraph(
        f"Exclusive {cpus_text(roles.exclusive or 'none')}, shared pool {roles.pool or 'empty'}, reserved "
        f"{roles.reserved or 'none'} ({roles.source})."
    )
    end = [] if found else [paragraph("Nothing was found that breaks or disturbs isolation.")]
    return "\n\n".join([head, *(finding_text(finding) for finding in found), *end])


def isolation_data(roles: CpuRoles, found: tuple[Finding, ...], outcome: Outcome) -> dict[str, Any]:
    """Return the JSON document."""
    findings = [to_data(finding) for finding in found]
    return {"schema": SCHEMA, "outcome": outcome.value, "roles": to_data(roles), "findings": findings}
