"""The table of a conformance run: honest counts, what was skipped told in groups, one line at the end."""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.verdict import Outcome
from toolkit.report.conformance_table import caught, group, render_conformance
from toolkit.report.page import PLAIN as WIDTH

PASSED, FAILED, SKIPPED, UNDECIDED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.UNDECIDED


def control(outcome: Outcome) -> ControlResult:
    return ControlResult(rule="applied", fault="widen-mems", subject="db/main", outcome=outcome, reason="")


def scenario(name: str, outcome: Outcome, reason: str = "", *controls: Outcome) -> ScenarioResult:
    return ScenarioResult(
        name=name,
        title=name,
        catalogue=("M2",),
        outcome=outcome,
        reason=reason,
        controls=tuple(control(one) for one in controls),
    )


def test_what_this_machine_cannot_break_is_told_apart() -> None:
    """A control that was skipped is neither caught nor missed; one that is undecided was run and not caught."""
    assert caught([control(PASSED), control(SKIPPED), control(SKIPPED)]) == "1/1, 2 skipped"
    assert caught([control(PASSED), control(UNDECIDED), control(FAILED)]) == "1/3"
    assert caught([]) == "0/0"


def test_the_same_lack_is_one_group() -> None:
    """Numbers do not tell groups apart; what is lacking does."""
    assert group("needs 4 CPUs (this machine has 2)") == group("needs 6 CPUs (this machine has 2)")
    assert group("needs 4 CPUs (this machine has 2), 2 sockets (this machine has 1)") == (
        "needs more CPUs, more sockets than there are here"
    )
    assert group("needs at most 1 NUMA node with CPUs (this machine has 2)") == (
        "needs fewer NUMA node with CPUs than there are here"
    )
    assert group("not in the core of the catalogue: --full runs it") == (
        "not in the core of the catalogue: --full runs it"
    )


def test_a_small_machine_gets_a_short_report() -> None:
    """A hundred scenarios that do not fit are a few lines, unless each is asked for; every line fits the width."""
    left_out = [scenario(f"s{i}", SKIPPED, f"needs {i + 3} CPUs (this machine has 2)") for i in range(100)]
    results = [scenario("memory-app", PASSED, "12 verdicts passed " * 9, PASSED, SKIPPED), *left_out]

    text = render_conformance(results, 192.4)
    assert len(text.splitlines()) < 15
    assert "Skipped 100 scenarios" in text
    assert " ".join(text.split()).endswith(
        "1 passed, 0 failed, 0 undecided, 100 skipped; broken promises caught: 1/1, 1 skipped; took 3 min 12 s."
    )
    told = render_conformance(results, 192.4, verbose=True)
    assert all(f"s{i} " in told for i in range(100))
    assert max(len(line) for line in (text + "\n" + told).splitlines()) <= WIDTH


def test_why_something_did_not_pass_is_told() -> None:
    """What passed is a row of numbers; each of the others is told with its reason, in words that are not broken up."""
    reason = "quota-throttling db/main: used 1.9 CPUs of 1.000"
    text = render_conformance([scenario("a", PASSED, "fine", PASSED), scenario("b", FAILED, reason, PASSED)], 1)

    assert "fine" not in text
    assert [line.split(maxsplit=2) for line in text.splitlines() if reason in line] == [["b", "failed", reason]]


def test_nothing_judged_is_said() -> None:
    """All skipped ends with 0 as documented, but no reader may take it as proof."""
    assert render_conformance([scenario("a", SKIPPED, "x")], 1).endswith("nothing was judged on this machine.")


def test_a_stranger_cannot_steer_the_terminal() -> None:
    """Reasons hold names of threads and paths."""
    text = render_conformance([scenario("a", FAILED, "\x1b[31mred"), scenario("b", SKIPPED, "\x1b[2J")], 1)

    assert "\x1b" not in text


def test_repeated_runs_are_told() -> None:
    """A person who reads a green table learns that the machine was too busy at first, and for what."""
    result = replace(scenario("quota", PASSED, "ok", PASSED), repeated=("quota-throttling a/b: too busy", "again"))

    text = render_conformance([result], 10.0)
    assert "2 undecided runs repeated (the first: quota-throttling a/b: too busy); took 10 s." in " ".join(text.split())
