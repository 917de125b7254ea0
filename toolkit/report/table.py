"""A result as text for people: verdicts, offenders, what was not seen, and the sentence. At most 80 columns."""

from __future__ import annotations

import re

from toolkit.model.result import Result
from toolkit.model.verdict import Outcome
from toolkit.report.layout import bullets, paragraph
from toolkit.report.summary import summary
from toolkit.report.text import printable
from toolkit.report.verdict_list import render_verdicts
from toolkit.text.wording import and_more, count

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_THREADS = re.compile(r"[^\s,()]+ \(#\)(?:, [^\s,()]+ \(#\))*")
"""A list of threads, their numbers blanked."""


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


def not_seen(result: Result) -> list[str]:
    """Return what was not seen; texts that differ in their numbers, or in the threads that they list, stand once."""
    alike: dict[str, list[str]] = {}
    for text in result.coverage.blind_spots:
        key = _THREADS.sub("#", _NUMBER.sub("#", text)) if result.windows is not None else text
        alike.setdefault(key, []).append(text)
    return [
        text if len(group) == 1 else f"{text} (and {count(len(group) - 1, 'time')} more, with other numbers)"
        for group in alike.values()
        for text in group[:1]
    ]


def _blind_spots(result: Result) -> str:
    texts = not_seen(result)
    return "Not seen\n" + bullets(texts) if texts else ""


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
        # Why stands above, once.
        found = ", ".join(dict.fromkeys(reason.partition(": ")[0] for reason in one.reasons))
        lines.append(
            bullets([f"window {one.number}, {one.started_at}, {one.duration_s:.1f} s: {found or one.outcome}"])
        )
    more = and_more(sums.failed + sums.undecided - len(sums.worst))
    return "\n".join([*lines, *([f"-{more}"] if more else [])])
