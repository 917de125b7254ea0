"""A conformance run as JUnit XML: one test suite per scenario, one test case per verdict and per negative control."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from toolkit.model.conformance import ScenarioResult
from toolkit.model.verdict import Outcome
from toolkit.report.text import printable


def render_junit(results: Sequence[ScenarioResult]) -> str:
    """Return the XML document."""
    root = ElementTree.Element("testsuites", {"name": "pinproof conformance"})
    for result in results:
        cases = [(f"{verdict.rule} {verdict.subject}", verdict.outcome, verdict.reason) for verdict in result.verdicts]
        cases += [
            (f"negative control {control.rule} {control.fault}", control.outcome, control.reason)
            for control in result.controls
        ]
        # A scenario that never ran (skipped, or the plan itself was wrong) is one case of its own.
        cases = cases or [(result.name, result.outcome, result.reason)]
        count = {outcome: sum(case[1] is outcome for case in cases) for outcome in Outcome}
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            {
                "name": printable(result.name),
                "tests": str(len(cases)),
                "failures": str(count[Outcome.FAILED]),
                "errors": str(count[Outcome.UNDECIDED]),
                "skipped": str(count[Outcome.SKIPPED]),
            },
        )
        for name, outcome, reason in cases:
            case = ElementTree.SubElement(
                suite, "testcase", {"classname": printable(result.name), "name": printable(name)}
            )
            tag = {Outcome.FAILED: "failure", Outcome.UNDECIDED: "error", Outcome.SKIPPED: "skipped"}.get(outcome)
            if tag is not None:
                ElementTree.SubElement(case, tag, {"message": printable(reason)})
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
