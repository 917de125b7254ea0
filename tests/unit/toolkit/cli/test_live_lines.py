"""Lines of ``watch`` while a window is open: the first of a subject at once, the next when a period has passed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from probes.observer import Violation
from toolkit.cli.live_lines import EVERY_S, LiveLines
from toolkit.cli.main import cli


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


def test_the_period_is_ten_seconds_unless_somebody_says_otherwise() -> None:
    """As documented."""
    assert EVERY_S == 10.0
    (option,) = [
        line for line in CliRunner().invoke(cli, ["watch", "--help"]).output.split("--") if "lines-every" in line
    ]
    assert "default: 10.0" in option
