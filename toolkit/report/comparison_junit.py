"""A comparison as JUnit XML: one test suite a node, a test case for each scenario and for each finding.

A finding is a failure, a measure that is suspect an error, one that is waived or that the repeats cannot judge skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

from toolkit.fleet.values import SUSPECT, UNDECIDED, WORSE, Comparison
from toolkit.report.comparison_table import measured, named, undecided_notes
from toolkit.report.junit import UNKNOWN_HOST, document
from toolkit.report.text import printable

PASSED, FAILURE, ERROR, SKIPPED = "", "failure", "error", "skipped"


@dataclass(frozen=True, slots=True)
class _Case:
    scenario: str
    name: str
    tag: str = PASSED
    message: str = ""


def render_junit(comparison: Comparison) -> str:
    """Return the XML document."""
    suites: dict[str, list[_Case]] = {node: [] for node in comparison.scenarios or {}}
    for node, names in (comparison.scenarios or {}).items():
        bad = {one.scenario for one in comparison.regressions if one.node == node}
        suites[node] += [_Case(name, "verdicts") for name in names if name not in bad]
    for one in (*comparison.regressions, *comparison.required):
        message = f"{one.before or 'not passed'} -> {one.after}: {one.reason}"
        suites.setdefault(one.node, []).append(_Case(one.scenario, named(one), FAILURE, message))
    for spot in comparison.new_blind_spots:
        node = next((name for name in suites if name and spot.startswith(f"{name}: ")), next(iter(suites), ""))
        suites.setdefault(node, []).append(_Case("", f"new blind spot {spot}", FAILURE, spot))
    for waived in comparison.waived:
        suites.setdefault(waived.node, []).append(
            _Case(waived.scenario, named(waived), SKIPPED, f"waived: {waived.waived}")
        )
    for change in comparison.measures:
        if change.status in (WORSE, SUSPECT):
            tag = SKIPPED if change.waived else FAILURE if change.status == WORSE else ERROR
            text = f"waived: {change.waived}" if change.waived else f"{measured(change)}; {change.reason}"
            name = f"{change.rule} {change.subject} {change.measure}"
            suites.setdefault(change.node, []).append(_Case(change.scenario, name, tag, text))
        elif change.status not in (UNDECIDED,):
            name = f"{change.rule} {change.subject} {change.measure}"
            suites.setdefault(change.node, []).append(_Case(change.scenario, name))
    if notes := undecided_notes(comparison):
        suites.setdefault(next(iter(suites), ""), []).append(_Case("", "measures", SKIPPED, "; ".join(notes)))
    root = ElementTree.Element("testsuites", {"name": "pinproof compare"})
    for node, cases in suites.items():
        _suite(root, node, cases)
    return document(root)


def _suite(root: ElementTree.Element, node: str, cases: list[_Case]) -> None:
    host = printable(node) or UNKNOWN_HOST
    number = {tag: sum(case.tag == tag for case in cases) for tag in (FAILURE, ERROR, SKIPPED)}
    totals = {"tests": str(len(cases)), "failures": str(number[FAILURE]), "errors": str(number[ERROR])}
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {"name": f"pinproof compare {host}", **totals, "skipped": str(number[SKIPPED]), "hostname": host},
    )
    for case in cases:
        place = f"{host}.{printable(case.scenario)}" if case.scenario else host
        element = ElementTree.SubElement(suite, "testcase", {"classname": place, "name": printable(case.name)})
        if case.tag:
            ElementTree.SubElement(element, case.tag, {"message": printable(case.message)})
