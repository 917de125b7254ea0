"""Lines of ``watch`` while a window is open: the first of a subject at once, the next when a period has passed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from probes.observer import Violation
from toolkit.cli import live_lines
from toolkit.cli.live_lines import EVERY_S, LiveLines
from toolkit.cli.main import cli
from toolkit.session.windows.counters import SessionState


def violation(claim: str) -> Violation:
    """Return a report about a claim."""
    return Violation(claim=claim, tid=7, tgid=7, comm="hog", cpu=1, first_at_ns=1, reported_at_ns=2, ns=1)


@pytest.mark.parametrize(("every_s", "lines"), [(3600.0, 2), (0.0, 4)])
def test_a_subject_is_said_again_after_a_period(every_s: float, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of two claims is reported twice: the second report is a line where the period is over."""
    said = LiveLines(every_s)
    for claim in ("db", "web", "db", "web"):
        said(violation(claim))
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_the_period_is_ten_seconds_unless_an_option_says_otherwise() -> None:
    """As documented."""
    assert EVERY_S == 10.0
    (option,) = [
        line for line in CliRunner().invoke(cli, ["watch", "--help"]).output.split("--") if "lines-every" in line
    ]
    assert "default: 10.0" in option


@pytest.mark.parametrize(("its_own", "lines"), [(False, 1), (True, 0), (None, 0)])
def test_where_claims_are_followed_the_nodes_next_word_is_awaited(
    its_own: bool | None, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A CPU that is the claim's by then is no line; none is while nothing was read."""
    said = LiveLines(3600.0, lambda _claim, _cpu, _at_ns: its_own)
    for _ in range(2):
        said(violation("db"))
        said.tick(SessionState)
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_node_that_says_nothing_holds_no_line_back_for_ever(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the longest pause between two readings it is reported."""
    monkeypatch.setattr(live_lines, "HELD_NS", 0)
    said = LiveLines(3600.0, lambda _claim, _cpu, _at_ns: None)
    said(violation("db"))
    said.tick(SessionState)
    assert len(capsys.readouterr().err.splitlines()) == 1
