"""The table of field failures: complete, honest about what is not caught, and every name in it exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.test_inject_field import CASES
from toolkit.inject.catalogue import FaultId, fault_named
from toolkit.pipeline.conformance import ADMISSION
from toolkit.scenario_file import load_scenario
from validators.registry import RULES

PROJECT = Path(__file__).resolve().parents[3]
TABLE = PROJECT / "validators/FAILURES.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in TABLE.read_text().splitlines()
    if re.match(r"\| F\d+ \|", line)
]
CAUGHT = [row for row in ROWS if row[3] != "no"]


def test_every_failure_has_one_row() -> None:
    """F1 to F67, in order, five cells each."""
    assert [row[0] for row in ROWS] == [f"F{number}" for number in range(1, 68)]
    assert {len(row) for row in ROWS} == {5}
    assert {row[3] for row in ROWS} == {"real", "state", "model", "no"}


def test_enough_are_caught_and_the_text_says_how_many() -> None:
    """At least 55 are reproduced and caught; the sentence above the table counts right."""
    real = sum(row[3] == "real" for row in ROWS)
    assert len(CAUGHT) >= 55
    assert f"{len(CAUGHT)} are reproduced and caught, {real} of them on a real kernel" in TABLE.read_text()


def test_what_is_not_caught_has_a_reason() -> None:
    """A reason in words, and no rule."""
    for row in ROWS:
        if row[3] == "no":
            assert row[2] == "none", row
            assert len(row[4]) > 5, row


@pytest.mark.parametrize("row", CAUGHT, ids=lambda row: row[0])
def test_rules_tests_and_scenarios_exist(row: list[str]) -> None:
    """Each rule is in the registry, each test function (and case) in its file, each scenario in the catalogue."""
    rules = re.findall(r"`([^`]+)`", row[2])
    assert rules
    assert set(rules) <= {rule.id for rule in RULES} | {ADMISSION}
    references = re.findall(r"`([^`]+)`", row[4])
    assert any(not reference.startswith("scenario:") for reference in references)
    for reference in references:
        if reference.startswith("scenario:"):
            assert (PROJECT / "validators/scenarios" / f"{reference[9:]}.yaml").is_file(), reference
            continue
        path, _, name = reference.partition("::")
        function, _, case = name.rstrip("]").partition("[")
        text = (PROJECT / path).read_text()
        assert re.search(rf"^def {re.escape(function)}\(", text, re.MULTILINE), reference
        if case:
            catalogue = (PROJECT / "toolkit/inject/catalogue.py").read_text()
            assert f'"{case}"' in text + catalogue, reference


def test_a_real_row_has_a_test_on_the_real_kernel() -> None:
    """What is called real is reproduced by an integration test."""
    for row in CAUGHT:
        if row[3] == "real":
            assert "tests/integration/" in row[4], row


def shown_by(reference: str) -> set[str]:
    """Return the rules that a test or scenario shows to notice something: what its case expects to fail, the controls
    of a scenario; of any other test, the rules that its own file speaks of.
    """
    if reference.startswith("scenario:"):
        scenario = load_scenario(PROJECT / f"validators/scenarios/{reference[9:]}.yaml")
        return {control.rule for control in scenario.negative_controls}
    path, _, name = reference.partition("::")
    case = name.rstrip("]").partition("[")[2]
    if case in CASES:
        return {rule for rule, _ in CASES[case][2]}
    if case in set(FaultId):
        return set(fault_named(case).rules)
    text = (PROJECT / path).read_text()
    spoken = {rule.id for rule in RULES if rule.id in text or rule.id.replace("-", "_") in text}
    return spoken | ({ADMISSION} if "allocation" in path else set())


@pytest.mark.parametrize("row", CAUGHT, ids=lambda row: row[0])
def test_each_rule_of_a_row_is_shown(row: list[str]) -> None:
    """A row names no rule that none of its tests and scenarios is about."""
    rules = set(re.findall(r"`([^`]+)`", row[2]))
    references = re.findall(r"`([^`]+)`", row[4])

    assert rules - {rule for reference in references for rule in shown_by(reference)} == set()
