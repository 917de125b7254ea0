"""A conformance run as JUnit XML: one test suite per scenario, one test case per verdict and per negative control.

Suites and cases are named by the node, too: the files of two nodes merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from toolkit.model.conformance import ScenarioResult
from toolkit.model.identity import Identity
from toolkit.model.verdict import Outcome
from toolkit.report.junit import UNKNOWN_HOST, document, hostname
from toolkit.report.text import printable


def render_junit(results: Sequence[ScenarioResult], identity: Identity | None = None) -> str:
    """Return the XML document. :param identity: whose results they are."""
    host = hostname(identity)
    root = ElementTree.Element("testsuites", {"name": "pinproof conformance"})
    for result in results:
        cases = [(f"{verdict.rule} {verdict.subject}", verdict.outcome, verdict.reason) for verdict in result.verdicts]
        cases += [
            (
                f"negative control {control.rule} {control.fault} {control.target or control.subject}".strip(),
                control.outcome,
                control.reason,
            )
            for control in result.controls
        ]
        # A scenario that never ran (skipped, or the plan itself was wrong) is one case of its own.
        cases = cases or [(result.name, result.outcome, result.reason)]
        count = {outcome: sum(case[1] is outcome for case in cases) for outcome in Outcome}
        place = printable(result.name) if host == UNKNOWN_HOST else f"{host}.{printable(result.name)}"
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            {
                "name": place,
                "hostname": host,
                "tests": str(len(cases)),
                "failures": str(count[Outcome.FAILED]),
                "errors": str(count[Outcome.UNDECIDED]),
                "skipped": str(count[Outcome.SKIPPED]),
            },
        )
        for name, outcome, reason in cases:
            case = ElementTree.SubElement(suite, "testcase", {"classname": place, "name": printable(name)})
            tag = {Outcome.FAILED: "failure", Outcome.UNDECIDED: "error", Outcome.SKIPPED: "skipped"}.get(outcome)
            if tag is not None:
                ElementTree.SubElement(case, tag, {"message": printable(reason)})
    return document(root)
