"""Findings about a machine's configuration, for people and as data."""

from __future__ import annotations

from typing import Any

from toolkit.kubernetes.kubelet_version import statement
from toolkit.model.cpuset import cpus_text
from toolkit.model.isolation import CpuRoles, Finding
from toolkit.model.serde import to_data
from toolkit.model.verdict import Outcome
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


def isolation_text(roles: CpuRoles, found: tuple[Finding, ...], *, configured: bool, version: str | None = None) -> str:
    """Return the report. :param configured: a kubelet's configuration says what is shared and what is reserved.

    :param version: of the kubelet that was found here; empty: it is not known; ``None``: none was looked for, or found.
    """
    others = "shared pool and reserved CPUs unknown"
    if configured:
        others = f"shared pool {roles.pool or 'empty'}, reserved {roles.reserved or 'none'}"
    head = paragraph(f"Exclusive {cpus_text(roles.exclusive or 'none')}, {others} ({roles.source}).")
    end = [] if found else [paragraph(_nothing(roles))]
    if version is not None and configured:
        end.append(paragraph(statement(version, named=False)))
    return "\n\n".join([head, *(finding_text(finding) for finding in found), *end])


def _nothing(roles: CpuRoles) -> str:
    if roles.exclusive:
        return "Nothing was found that breaks or disturbs isolation."
    return (
        "Nothing was found, but no CPU is known to be exclusive: what disturbs such CPUs was not looked for. "
        "--kubelet-config or --exclusive names them."
    )


def isolation_data(
    roles: CpuRoles, found: tuple[Finding, ...], outcome: Outcome, version: str | None = None
) -> dict[str, Any]:
    """Return the JSON document. :param version: as of :func:`isolation_text`."""
    findings = [to_data(finding) for finding in found]
    data = {"schema": SCHEMA, "outcome": outcome.value, "roles": to_data(roles), "findings": findings}
    return data if version is None else {**data, "kubelet": {"version": version or None}}
