"""JUnit files of several nodes side by side: a CI merges them, and no suite or case of two nodes is one."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from tests.unit.toolkit.report.results_builder import healthy, result_of
from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.identity import Identity
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report import conformance_junit, junit


def names(text: str) -> tuple[set[str | None], set[str | None], list[tuple[str | None, str | None]]]:
    root = ElementTree.fromstring(text)
    suites = list(root.iter("testsuite"))
    cases = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    return {one.get("name") for one in suites}, {one.get("hostname") for one in suites}, cases


def conformance(node: str) -> str:
    verdict = Verdict(rule="noise", subject="a", outcome=Outcome.PASSED, reason="", measures={})
    controls = tuple(
        ControlResult(rule="applied", fault="set-quota", subject=one, outcome=Outcome.PASSED, reason="")
        for one in ("load/main", "load/(pod)")
    )
    result = ScenarioResult(
        name="s", title="s", catalogue=(), outcome=Outcome.PASSED, reason="", verdicts=(verdict,), controls=controls
    )
    return conformance_junit.render_junit([result], Identity(node=node))


def run(node: str) -> str:
    found = result_of(healthy())
    return junit.render_junit(replace(found, environment=replace(found.environment, identity=Identity(node=node))))


def test_two_nodes_share_no_suite_and_no_case() -> None:
    """Of a conformance run, its controls told apart, and of a run."""
    for render in (conformance, run):
        one, two = names(render("node1")), names(render("node2.example.com"))
        assert one[1] == {"node1"}
        assert two[1] == {"node2.example.com"}
        assert not one[0] & two[0]
        assert not set(one[2]) & set(two[2])
        assert len(one[2]) == len(set(one[2]))
