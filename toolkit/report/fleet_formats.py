"""A fleet's answer for other programs: JUnit XML, Markdown for a pull request, a textfile for node_exporter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from toolkit.fleet.answer import GREEN, FleetAnswer, Node
from toolkit.fleet.hosts import Host
from toolkit.fleet.reading import Report, said_of, seconds_of
from toolkit.model.node_record import NodeOutcome
from toolkit.model.verdict import Outcome
from toolkit.report.fleet_table import (
    clean,
    counted,
    fact_line,
    headline,
    hole_line,
    outlier_line,
    rule_line,
    waiver_line,
    was,
)
from toolkit.report.text import printable
from toolkit.text.wording import and_more

MARKDOWN_BYTES = 60_000
"""As much as a comment on a pull request may hold (65,536 characters on GitHub), with room for what posts it."""
Case = tuple[str, str, str, str]
"""Class name, name, outcome, message."""


def fleet_junit(answer: FleetAnswer, hosts: Sequence[Host]) -> str:
    """Return JUnit XML: a suite for each node, with its ``hostname``; a case for the node, and one for each rule.

    ``failed`` is a failure; ``waived`` is skipped; everything else that is not ``passed`` is an error.
    """
    root = ElementTree.Element("testsuites", {"name": "pinproof fleet", "tests": "0"})
    number = 0
    for host in hosts:
        cases = list(_cases(host))
        number += len(cases)
        outcomes = [case[2] for case in cases]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            {
                "name": printable(f"pinproof.{host.row.host}"),
                "hostname": printable(host.row.host),
                "timestamp": (host.row.at or answer.made_at).removesuffix("Z"),
                "tests": str(len(cases)),
                "failures": str(outcomes.count("failed")),
                "errors": str(sum(one not in ("failed", "passed", "waived") for one in outcomes)),
                "skipped": str(outcomes.count("waived")),
                "time": "0",
            },
        )
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in (
            ("hardware", host.row.hardware),
            ("software", host.row.software),
            ("machine", host.row.machine),
        ):
            ElementTree.SubElement(properties, "property", {"name": name, "value": printable(value)})
        for case in cases:
            _case(suite, case)
    root.set("tests", str(number))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _cases(host: Host) -> Iterator[Case]:
    name = f"pinproof.{host.row.host}"
    yield name, "node", host.row.outcome.value, host.row.cause
    for report in host.reports:
        for rule, outcome in report.judged:
            borne = report.outcome is NodeOutcome.WAIVED and outcome is not Outcome.PASSED
            said = NodeOutcome.WAIVED.value if borne else outcome.value
            yield f"{name}.{report.kind}", rule, said, _why(report, rule, outcome)


def _why(report: Report, rule: str, outcome: Outcome) -> str:
    found = [said_of(one) for one in report.findings if one.rule == rule and one.outcome is outcome]
    return "\n".join(found)


def _case(suite: ElementTree.Element, case: Case) -> None:
    group, name, outcome, message = case
    element = ElementTree.SubElement(
        suite, "testcase", {"classname": printable(group), "name": printable(name), "time": "0"}
    )
    if outcome == "passed":
        return
    kind = {"failed": "failure", "waived": "skipped"}.get(outcome, "error")
    lines = [printable(line) for line in message.split("\n")]
    said = {"message": lines[0]} if kind == "skipped" else {"message": lines[0], "type": outcome}
    ElementTree.SubElement(element, kind, said).text = "\n".join(lines)


def fleet_markdown(answer: FleetAnswer) -> str:
    """Return Markdown of at most :data:`MARKDOWN_BYTES`; what does not fit is counted."""
    text = f"## pinproof fleet: {answer.outcome}\n\n{clean(headline(answer))} Made at {answer.made_at}.\n"
    if answer.changes is not None:
        changed = [(f"{was(one.before)} → {was(one.after)}", one.host)
                   for one in (*answer.changes.worse, *answer.changes.better, *answer.changes.others)]  # fmt: skip
        text = _section(text, f"New since {answer.changes.since}", [
            *(f"`{clean(host)}`: {way}" for way, host in changed),
            *(f"new: {clean(rule_line(one))}" for one in answer.changes.rules),
            *(f"new blind spot: {clean(one.text)}" for one in answer.blind_spots if one.new),
        ] or ["nothing"])  # fmt: skip
    bad = [row for row in answer.nodes if row.outcome not in GREEN]
    text = _section(text, "Rules that did not pass, by class", [clean(rule_line(one)) for one in answer.rules], most=40)
    for contrast in answer.contrasts:
        title = f"What separates the nodes that came out {contrast.question} from those that passed"
        text = _section(text, title, [clean(fact_line(fact)) for fact in contrast.facts], most=10)
    text = _section(text, "Which machine is which", [clean(one.text) for one in answer.twice], most=20)
    text = _section(text, "Waivers", [clean(waiver_line(one)) for one in answer.waivers], most=40)
    text = _section(text, "Not covered", [clean(hole_line(one)) for one in answer.holes if one.anywhere], most=20)
    text = _section(
        text, "Far from the others of their class", [clean(outlier_line(one)) for one in answer.outliers], most=20
    )
    rows = [
        f"{clean(one.hardware or 'not known')} ({clean(one.software or 'not known')}): {counted(one.counts)}"
        for one in answer.classes
    ]
    text = _section(text, "Classes", rows, most=40)
    return _table(text, bad)


def _section(text: str, title: str, lines: Sequence[str], most: int = 100) -> str:
    if not lines:
        return text
    text += f"\n### {title}\n\n"
    for place, line in enumerate(lines):
        added = f"- {line}\n"
        if place >= most or len((text + added).encode()) > MARKDOWN_BYTES - 400:
            return text + f"-{and_more(len(lines) - place)}\n"
        text += added
    return text


def _table(text: str, rows: Sequence[Node]) -> str:
    if not rows:
        return text
    text += "\n### Nodes that are not green\n\n| node | outcome | why |\n|---|---|---|\n"
    size = len(text.encode())
    for place, row in enumerate(rows):
        added = f"| `{clean(row.host)}` | {row.outcome} | {clean(row.cause)} |\n"
        size += len(added.encode())
        if size > MARKDOWN_BYTES - 100:
            return text + f"\n{and_more(len(rows) - place).lstrip()}\n"
        text += added
    return text


def fleet_textfile(answer: FleetAnswer) -> str:
    """Return metrics for node_exporter's textfile collector: nodes by outcome and class, expected and missing ones."""
    registry = CollectorRegistry()
    nodes = Gauge(
        "pinproof_fleet_nodes", "Nodes by outcome and class.", ["outcome", "hardware", "software"], registry=registry
    )
    for outcome in NodeOutcome:
        for one in answer.classes:
            nodes.labels(outcome.value, printable(one.hardware), printable(one.software)).set(
                one.counts.get(outcome, 0)
            )
    expected = Gauge("pinproof_fleet_expected_nodes", "Hosts that must report.", registry=registry)
    expected.set(sum(row.expected for row in answer.nodes))
    missing = Gauge("pinproof_fleet_missing_nodes", "Expected hosts of which nothing was ever read.", registry=registry)
    missing.set(answer.counts.get(NodeOutcome.NEVER, 0))
    bad = Gauge("pinproof_fleet_node_not_green", "1: a node that did not come out green, by its outcome.",
                ["node", "outcome"], registry=registry)  # fmt: skip
    for row in answer.nodes:
        if row.outcome not in GREEN:
            bad.labels(printable(row.host), row.outcome.value).set(1)
    made = Gauge("pinproof_fleet_answer_timestamp_seconds", "When this answer was made.", registry=registry)
    made.set(seconds_of(answer.made_at) or 0.0)
    return generate_latest(registry).decode()
