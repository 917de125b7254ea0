"""The table of field failures: complete, honest about what is not caught, and every name in it exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.integration.capture_cases import CASES as CAPTURES
from tests.integration.load_cases import CASES
from tests.integration.node_cases import CASES as NODES
from toolkit.faults.registry import INJECTABLE, fault_named
from toolkit.scenario_file import load_scenario
from toolkit.session.planning.admissions import ADMISSION
from validators.registry import RULES

PROJECT = Path(__file__).resolve().parents[3]
TABLE = PROJECT / "validators/FAILURES.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in TABLE.read_text().splitlines()
    if re.match(r"\| F\d+ \|", line)
]
REAL, EDITED, WRITTEN, MODEL, NOT = "for real", "edited capture", "written evidence", "model", "not reproduced"
CAUGHT = [row for row in ROWS if row[3] != NOT]
EDITED_CAPTURES = "tests/integration/test_field_files.py::"
TABLES = {"test_field_files.py": CAPTURES, "test_field_node.py": NODES, "test_inject_field.py": CASES}
"""The cases of a test file that are in a module beside it."""
FIRST_IS_ABOUT_EVIDENCE = {"F52"}
"""Its delivery is real; in a virtual machine the rule does not judge it. The text says so."""


def test_every_failure_has_one_row() -> None:
    """F1 to F67, in order, five cells each."""
    assert [row[0] for row in ROWS] == [f"F{number}" for number in range(1, 68)]
    assert {len(row) for row in ROWS} == {5}
    assert {row[3] for row in ROWS} == {REAL, EDITED, WRITTEN, MODEL, NOT}


def test_the_text_says_how_many() -> None:
    """At least 55 are reproduced and caught, 50 for real; the sentence above the table counts as the table does."""
    count = {how: sum(row[3] == how for row in ROWS) for how in (REAL, EDITED, WRITTEN, MODEL, NOT)}
    assert len(CAUGHT) >= 55
    assert count[REAL] >= 50
    assert (
        f"{len(CAUGHT)} are reproduced and caught: {count[REAL]} for real, {count[EDITED]} by an edited capture, "
        f"{count[WRITTEN]} by written evidence, {count[MODEL]} by the model. {count[NOT]} are not reproduced."
    ) in " ".join(TABLE.read_text().split())


def test_what_is_not_caught_has_a_reason() -> None:
    """A reason in words, and no rule."""
    for row in ROWS:
        if row[3] == NOT:
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
            tabled = {fault.id for fault in INJECTABLE} | set(TABLES.get(Path(path).name, {}))
            assert f'"{case}"' in text or case in tabled, reference


@pytest.mark.parametrize("row", [row for row in CAUGHT if row[3] == REAL], ids=lambda row: row[0])
def test_a_real_row_begins_with_a_test_on_the_real_kernel(row: list[str]) -> None:
    """What is called real is reproduced by an integration test, and that very test sees a rule of the row report it."""
    first = re.findall(r"`([^`]+)`", row[4])[0]
    assert first.startswith("tests/integration/"), row
    assert not first.startswith(EDITED_CAPTURES), row
    if row[0] not in FIRST_IS_ABOUT_EVIDENCE:
        assert shown_by(first) & set(re.findall(r"`([^`]+)`", row[2])), row


@pytest.mark.parametrize("row", [row for row in CAUGHT if row[3] == EDITED], ids=lambda row: row[0])
def test_an_edited_capture_is_called_so(row: list[str]) -> None:
    """What a kubelet wrote once and a test changed is neither a running node nor made up."""
    assert re.findall(r"`([^`]+)`", row[4])[0].startswith(EDITED_CAPTURES), row


@pytest.mark.parametrize("row", [row for row in CAUGHT if row[3] not in (REAL, EDITED)], ids=lambda row: row[0])
def test_what_is_not_called_real_is_not(row: list[str]) -> None:
    """Written evidence and the model are judged by unit tests; a row that begins elsewhere undersells itself."""
    assert re.findall(r"`([^`]+)`", row[4])[0].startswith("tests/unit/"), row


def function_of(text: str, name: str) -> str:
    """The lines of one function."""
    nodes = ast.walk(ast.parse(text))
    found = next(node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name)
    return ast.get_source_segment(text, found) or ""


def shown_by(reference: str) -> set[str]:
    """Return the rules that a test or scenario shows to notice something: what its case expects to fail, the controls
    of a scenario; of any other test on the real kernel, the rules that its own lines name; of a unit test, those that
    its file is about.
    """
    if reference.startswith("scenario:"):
        scenario = load_scenario(PROJECT / f"validators/scenarios/{reference[9:]}.yaml")
        return {control.rule for control in scenario.negative_controls}
    path, _, name = reference.partition("::")
    case = name.rstrip("]").partition("[")[2]
    if case in CASES:
        return {rule for rule, _ in CASES[case][2]}
    if case in {**CAPTURES, **NODES}:
        return {(NODES if path.endswith("test_field_node.py") else CAPTURES)[case][3][0]}
    if case in {fault.id for fault in INJECTABLE}:
        return set(fault_named(case).rules)
    text = (PROJECT / path).read_text()
    if path.startswith("tests/integration/"):
        text = function_of(text, name.partition("[")[0])
    spoken = {rule.id for rule in RULES if rule.id in text or rule.id.replace("-", "_") in text}
    return spoken | ({ADMISSION} if "allocation" in path else set())


@pytest.mark.parametrize("row", CAUGHT, ids=lambda row: row[0])
def test_each_rule_of_a_row_is_shown(row: list[str]) -> None:
    """A row names no rule that none of its tests and scenarios is about."""
    rules = set(re.findall(r"`([^`]+)`", row[2]))
    references = re.findall(r"`([^`]+)`", row[4])

    assert rules - {rule for reference in references for rule in shown_by(reference)} == set()
