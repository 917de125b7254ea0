"""A result as a table for people: verdicts, offenders, what was not seen, and the sentence. At most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from tabulate import MIN_PADDING, tabulate

from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.result import Result, make_result
from toolkit.model.verdict import Outcome, Verdict, rank
from toolkit.report.summary import summary
from toolkit.report.text import count, printable

WIDTH = 100
MAX_OFFENDERS = 10


def render_table(result: Result) -> str:
    """Return the whole report as text."""
    parts = [
        _verdicts(result.verdicts),
        _offenders(result.verdicts),
        _blind_spots(result),
        _windows(result),
        textwrap.fill(printable(summary(result)), WIDTH, break_on_hyphens=False),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_window(number: int, result: Result) -> str:
    """Return one window of several: a line, and below it what did not pass."""
    coverage = result.coverage
    counts = {outcome: sum(verdict.outcome is outcome for verdict in result.verdicts) for outcome in Outcome}
    told = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
    line = (
        f"Window {number}, {result.started_at}, {result.duration_s:.1f} s: {result.outcome} ({told or 'no verdicts'}; "
        f"{coverage.switches_judged:,} of {coverage.switches_kernel:,} switches judged, {coverage.lost_events:,} lost)"
    )
    bad = [verdict for verdict in result.verdicts if verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED)]
    parts = [_verdicts(bad), _offenders(bad)] if bad else []
    return "\n\n".join([printable(line), *(part for part in parts if part), *([""] if bad else [])])


def render_run(claims: ClaimSet, evidence: Evidence, verdicts: tuple[Verdict, ...]) -> str:
    """Return the report of a run that was just judged."""
    return render_table(make_result(evidence, verdicts))


def _verdicts(verdicts: Iterable[Verdict]) -> str:
    # Skipped verdicts of one rule that differ in nothing but the subject say nothing new on their own lines.
    rows: list[tuple[str, ...]] = []
    skipped: dict[tuple[str, str], list[str]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: rank(verdict.outcome)):
        if verdict.outcome is Outcome.SKIPPED:
            skipped.setdefault((verdict.rule, verdict.reason), []).append(verdict.subject)
        else:
            rows.append((str(verdict.outcome), verdict.rule, verdict.subject, verdict.reason))
    for (rule, reason), subjects in skipped.items():
        named = ", ".join(subjects[:2]) + (f" +{len(subjects) - 2}" if len(subjects) > 2 else "")
        rows.append(("skipped", rule, named, reason))
    if not rows:
        return "no verdicts"
    return fitted(rows, ("outcome", "rule", "subject", "reason"), flexible=(2, 3), shares=(0.3, 0.7))


def _offenders(verdicts: Iterable[Verdict]) -> str:
    rows: list[tuple[str, ...]] = []
    total = 0
    for verdict in verdicts:
        for who in verdict.offenders:
            total += 1
            if len(rows) < MAX_OFFENDERS:
                thread = f"{who.comm} ({who.tid})" if who.tid else who.comm
                rows.append(
                    (
                        verdict.rule,
                        who.claim,
                        thread,
                        str(who.cpu),
                        f"{who.first_at_ns / 1e6:.1f}",
                        str(who.switches),
                        f"{who.total_ns / 1e6:.3f}",
                        f"{who.longest_ns / 1e6:.3f}",
                    )
                )
    if not rows:
        return ""
    headers = ("rule", "of", "thread", "cpu", "first ms", "switches", "total ms", "longest ms")
    more = f"\n… and {total - len(rows)} more (see --json)" if total > len(rows) else ""
    return "Offenders\n" + fitted(rows, headers, flexible=(1, 2), shares=(0.5, 0.5)) + more


def fitted(
    rows: Sequence[tuple[str, ...]], headers: tuple[str, ...], flexible: tuple[int, ...], shares: tuple[float, ...]
) -> str:
    """Fit a table into the width: the flexible columns share, by ``shares``, what the others leave, and wrap."""
    clean = [tuple(printable(cell) for cell in row) for row in rows]
    # tabulate pads every header, so a column is at least that wide.
    widths = [max(len(header) + MIN_PADDING, *(len(row[i]) for row in clean)) for i, header in enumerate(headers)]
    room = WIDTH - 2 * (len(headers) - 1) - sum(width for i, width in enumerate(widths) if i not in flexible)
    limits: list[int | None] = [None] * len(headers)
    left = max(room, 10 * len(flexible))
    for index, share in zip(flexible[:-1], shares[:-1], strict=True):
        limits[index] = min(widths[index], max(8, int(room * share)))
        left -= limits[index] or 0
    limits[flexible[-1]] = max(8, left)
    return tabulate(clean, headers=headers, tablefmt="simple", maxcolwidths=limits, disable_numparse=True)


def _blind_spots(result: Result) -> str:
    spots = [printable(spot) for spot in result.coverage.blind_spots]
    return (
        ""
        if not spots
        else "Not seen\n"
        + "\n".join(textwrap.fill(spot, WIDTH, initial_indent="- ", subsequent_indent="  ") for spot in spots)
    )


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
        first = f"- window {one.number}, {one.started_at}, {one.duration_s:.1f} s, {one.outcome}: "
        text = printable(first + (one.reasons[0] if one.reasons else ""))
        lines.append(textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    more = sums.failed + sums.undecided - len(sums.worst)
    return "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])
