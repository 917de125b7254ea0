"""A result as JUnit XML: one test suite per run, one test case per verdict, by node: files of two nodes merge.

``failed`` is a failure; ``undecided`` is an error (not enough evidence); ``skipped`` is skipped. The shape is the
one that Jenkins, GitLab and the Windyroad ``JUnit.xsd`` share. Strings of strangers are made printable, which is also
what XML 1.0 can hold: a control character stands there as ``\\x1b``.
"""

from __future__ import annotations

from datetime import datetime
from xml.etree import ElementTree

from toolkit.model.identity import Identity
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.text import printable

SUITE = "pinproof"
UNKNOWN_HOST = "localhost"
"""Of a run from before results said whose they are: the schema wants a name."""


def render_junit(result: Result) -> str:
    """Return the XML document."""
    count = {outcome: sum(verdict.outcome is outcome for verdict in result.verdicts) for outcome in Outcome}
    totals = {
        "tests": str(len(result.verdicts)),
        "failures": str(count[Outcome.FAILED]),
        "errors": str(count[Outcome.UNDECIDED]),
        "time": f"{result.duration_s:.3f}",
    }
    host = hostname(result.environment.identity)
    name = SUITE if host == UNKNOWN_HOST else f"{SUITE}.{host}"
    root = ElementTree.Element("testsuites", {"name": SUITE, **totals})
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": name,
            **totals,
            "skipped": str(count[Outcome.SKIPPED]),
            "timestamp": _timestamp(result.started_at),
            "hostname": host,
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in _properties(result):
        ElementTree.SubElement(properties, "property", {"name": key, "value": printable(value)})
    for verdict in result.verdicts:
        _case(suite, verdict, name)
    return document(root)


def hostname(identity: Identity | None) -> str:
    """Return the node's name, as it stands in a suite."""
    return printable(identity.node) if identity is not None and identity.node else UNKNOWN_HOST


def document(root: ElementTree.Element) -> str:
    """Return the text of an XML document."""
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _timestamp(started_at: str) -> str:
    """JUnit's schema wants seconds and no zone."""
    try:
        return datetime.fromisoformat(started_at).strftime("%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return "1970-01-01T00:00:00"


def _properties(result: Result) -> list[tuple[str, str]]:
    coverage, environment = result.coverage, result.environment
    return [
        ("schema", result.schema),
        ("outcome", str(result.outcome)),
        ("kernel", environment.kernel),
        ("cgroup", environment.cgroup),
        ("switches_judged", str(coverage.switches_judged)),
        ("switches_kernel", str(coverage.switches_kernel)),
        ("lost_events", str(coverage.lost_events)),
        *((f"blind_spot_{index}", spot) for index, spot in enumerate(coverage.blind_spots)),
    ]


def _case(suite: ElementTree.Element, verdict: Verdict, where: str) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": f"{where}.{printable(verdict.rule)}", "name": printable(verdict.subject), "time": "0"},
    )
    reason = printable(verdict.reason)
    if verdict.outcome is Outcome.FAILED:
        ElementTree.SubElement(case, "failure", {"message": reason, "type": "failed"}).text = _details(verdict)
    elif verdict.outcome is Outcome.UNDECIDED:
        ElementTree.SubElement(case, "error", {"message": reason, "type": "undecided"}).text = _details(verdict)
    elif verdict.outcome is Outcome.SKIPPED:
        ElementTree.SubElement(case, "skipped", {"message": reason})
    else:
        ElementTree.SubElement(case, "system-out").text = _details(verdict)


def _details(verdict: Verdict) -> str:
    lines = [verdict.reason, *(f"{name}: {value}" for name, value in verdict.measures.items())]
    lines += [
        f"offender: {one.comm} (tid {one.tid}) of {one.claim} on CPU {one.cpu}, first at {one.first_at_ns} ns, "
        f"{one.switches} switches, {one.total_ns} ns in all, longest {one.longest_ns} ns"
        for one in verdict.offenders
    ]
    return "\n".join(map(printable, lines))
