"""A result as text for people: verdicts, offenders, what was not seen, and the sentence. At most 80 columns."""

from __future__ import annotations

from toolkit.model.result import Result
from toolkit.model.verdict import Outcome
from toolkit.model.wording import count
from toolkit.report.layout import bullets, paragraph
from toolkit.report.summary import summary
from toolkit.report.text import printable
from toolkit.report.verdict_list import render_verdicts


def render_table(result: Result, *, verbose: bool = False) -> str:
    """Return the whole report as text. :param verbose: with the reason of every verdict."""
    parts = [
        render_verdicts(result.verdicts, verbose=verbose),
        _blind_spots(result),
        _windows(result),
        paragraph(summary(result)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_window(number: int, result: Result) -> str:
    """Return one window of several: a paragraph, and below it what did not pass."""
    coverage = result.coverage
    counts = {outcome: sum(verdict.outcome is outcome for verdict in result.verdicts) for outcome in Outcome}
    found = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    line = (
        f"Window {number}, {result.started_at}, {result.duration_s:.1f} s: {result.outcome} ({found or 'no verdicts'}; "
        f"{coverage.switches_judged:,} of {coverage.switches_kernel:,} switches judged, {coverage.lost_events:,} lost)"
    )
    bad = [verdict for verdict in result.verdicts if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    return "\n\n".join([printable(line), *([render_verdicts(bad), ""] if bad else [])])


def _blind_spots(result: Result) -> str:
    return "Not seen\n" + bullets(result.coverage.blind_spots) if result.coverage.blind_spots else ""


def _windows(result: Result) -> str:
    """Name the windows that did not pass, of several."""
    sums = result.windows
    if sums is None:
        return ""
    counts = {outcome: getattr(sums, outcome) for outcome in Outcome}
    lines = [
        f"{count(sums.count, 'window')}: "
        + ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    ]
    for one in sums.worst:
        first = f"window {one.number}, {one.started_at}, {one.duration_s:.1f} s, {one.outcome}: "
        lines.append(bullets([first + (one.reasons[0] if one.reasons else "")]))
    more = sums.failed + sums.undecided - len(sums.worst)
    return "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])
