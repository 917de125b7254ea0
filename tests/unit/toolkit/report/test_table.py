"""The report as text: what did not pass in full, a line for each rule that passed, a count of the rest."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.unit.toolkit.report.results_builder import broken, healthy, result_of
from toolkit.model.result import make_result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.page import PLAIN as WIDTH
from toolkit.report.table import render_table


def test_table_fits_and_is_harmless() -> None:
    """No line is wider than the limit; control characters of thread names never reach the terminal."""
    text = render_table(result_of(broken()))

    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\ud800]", text)
    assert "4711" in text


def section(text: str, title: str) -> list[str]:
    """Return the lines of one part of a report, without its title."""
    (part,) = [part for part in text.split("\n\n") if part.split("\n")[0].split(":")[0] == title]
    return part.split("\n")[1:]


def test_what_passed_is_a_line_for_each_rule() -> None:
    """Each rule that passed has one line with its subjects; what was skipped is one number, and no rule is lost."""
    result = result_of(healthy())
    text = render_table(result)
    passed = section(text, "Passed")
    lines = {line.split()[0]: line for line in passed}

    assert len(passed) == len(lines)
    assert set(lines) == {verdict.rule for verdict in result.verdicts if verdict.outcome is Outcome.PASSED}
    assert {"db,", "web"} <= set(lines["applied"].split())
    assert "no CPU" not in text
    silent = {one.rule for one in result.verdicts} - set(lines)
    assert silent
    assert all(rule in text for rule in silent)


def test_verbose_gives_every_reason() -> None:
    """With it each verdict's subject and reason can be read."""
    result = result_of(healthy())
    flat = " ".join(render_table(result, verbose=True).split())

    assert all(" ".join(verdict.reason.split()) in flat for verdict in result.verdicts)


def test_what_did_not_pass_comes_first_and_in_full() -> None:
    """Every failed and undecided verdict with its reason, which several share once, and before anything that passed."""
    result = result_of(broken())
    text = render_table(result)
    bad = [verdict for verdict in result.verdicts if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    flat = " ".join(text[: text.index("Passed")].split())

    assert all(verdict.reason in flat and verdict.rule in flat for verdict in bad)
    assert flat.count("3 events lost (ring buffer full)") == 1
    assert section(text, "Not seen")


@pytest.mark.parametrize("number", [1, 2, 40])
@pytest.mark.parametrize("name", ["db", "pod-" + "x" * 30, "y" * 200])
def test_passed_lines_fit(number: int, name: str) -> None:
    """However many subjects and however long their names: one line, within the width, that says how many there are."""
    one = Verdict(rule="cpuset-containment", subject=name, outcome=Outcome.PASSED, reason="fine, " * 40, measures={})
    verdicts = tuple(replace(one, subject=f"{name}{i}") for i in range(number))
    (line,) = section(render_table(make_result(healthy(), verdicts, unknown=None)), "Passed")

    assert len(line) <= WIDTH
    named = line.count(f"{name}") if len(name) < 50 else 0
    assert number <= 2 or not named or f"and {number - named} more" in line


def test_table_with_long_names_fits() -> None:
    """Long claim names and reasons wrap instead of widening the table."""
    long = Verdict(
        rule="cpuset-containment",
        subject="pod-" + "x" * 80,
        outcome=Outcome.FAILED,
        reason="because " * 40,
        measures={},
    )
    text = render_table(make_result(healthy(), (long, replace(long, outcome=Outcome.SKIPPED)), unknown=None))

    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert render_table(make_result(healthy(), (), unknown=None)).startswith("no verdicts")
