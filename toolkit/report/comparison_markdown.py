"""A comparison as Markdown for a pull request, at most :data:`MAX_BYTES` long (GitHub takes comments of 64 KB)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from toolkit.fleet.values import BETTER, SUSPECT, WORSE, Comparison, MeasureChange, VerdictChange
from toolkit.report.comparison_table import (
    counting,
    measured,
    most_different,
    named,
    undecided_notes,
    verdict_line,
    waiver_notes,
)
from toolkit.report.text import printable

MAX_BYTES = 60_000
MAX_CELL = 400
_MEANS = re.compile(r"([\\`*_{}\[\]<>#|~!&@])")
"""What Markdown, or the page that shows it, would take for more than a character; names come from elsewhere."""


def render_markdown(comparison: Comparison) -> str:
    """Return the document; what does not fit is counted."""
    mark = {"failed": "❌", "undecided": "❓"}.get(comparison.outcome.value, "✅")
    lines = [f"### {mark} pinproof: {_safe(verdict_line(comparison))}", ""]
    for title, rows in _sections(comparison):
        if rows:
            lines += [f"**{title}**", "", *(f"- {row}" for row in rows), ""]
    return _cut(lines)


def _sections(comparison: Comparison) -> Iterable[tuple[str, Sequence[str]]]:
    yield "Worse", [_verdict(one) for one in comparison.regressions]
    yield "New blind spots", [_safe(one) for one in comparison.new_blind_spots]
    yield "Measures that are worse", [_measure(one) for one in counting(comparison, WORSE)]
    yield "Suspect: one more repeat must show it", [_measure(one) for one in counting(comparison, SUSPECT)]
    yield "Not passed", [_verdict(one) for one in comparison.required]
    yield (
        "Waived",
        [f"{_verdict(one)}; {_safe(one.waived)}" for one in comparison.waived]
        + [f"{_measure(one)}; {_safe(one.waived)}" for one in comparison.measures if one.waived],
    )
    yield "Waivers", [_safe(one) for one in waiver_notes(comparison)]
    yield "Environment", [_safe(f"{one.name}: {one.before} → {one.after}") for one in comparison.environment]
    yield (
        "Better",
        [_verdict(one) for one in comparison.improvements] + [_measure(one) for one in counting(comparison, BETTER)],
    )
    yield "Other changes", [_verdict(one) for one in comparison.other_changes]
    yield "Measures that could not be judged", [_safe(one) for one in undecided_notes(comparison)]
    yield "Differ, but cannot be judged", [_measure(one) for one in most_different(comparison)]


def _verdict(change: VerdictChange) -> str:
    return _safe(f"{named(change)}: {change.before} → {change.after}: {change.reason}")


def _measure(change: MeasureChange) -> str:
    return _safe(measured(change) + (f"; {change.reason}" if change.reason else ""))


def _safe(text: str) -> str:
    shown = printable(text)
    shown = shown if len(shown) <= MAX_CELL else shown[: MAX_CELL - 3] + "..."
    return _MEANS.sub(r"\\\1", shown)


def _cut(lines: Sequence[str]) -> str:
    room = MAX_BYTES - 100
    kept: list[str] = []
    for at, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            left = sum(one.startswith("- ") for one in lines[at:])
            return "\n".join([*kept, "", f"… and {left} more lines: `pinproof compare --json` has them.", ""])
        kept.append(line)
    return "\n".join(kept)
