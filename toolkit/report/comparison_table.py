"""A comparison as text: what differs in the environment first, then what became worse, then what became better."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.wording import count
from toolkit.report.compare import Comparison, VerdictChange
from toolkit.report.layout import bullets, fitted


def render_comparison(comparison: Comparison) -> str:
    """Return the text, as wide as the page."""
    parts = []
    if comparison.environment:
        rows = [
            (change.name, change.before, change.after if change.after != change.before else "")
            for change in comparison.environment
        ]
        parts.append("Environment differs\n" + fitted(rows, ("fact", "base", "new"), (1, 2), (0.5, 0.5)))
    parts.append(_changes("Worse", comparison.regressions))
    if comparison.new_blind_spots:
        parts.append("New blind spots\n" + bullets(comparison.new_blind_spots))
    parts.append(_changes("Better", comparison.improvements))
    parts.append(_changes("Other changes", comparison.other_changes))
    counts = (
        f"{len(comparison.regressions)} worse, {count(len(comparison.new_blind_spots), 'new blind spot')}, "
        f"{len(comparison.improvements)} better, {comparison.unchanged} unchanged"
    )
    parts.append(f"{'REGRESSED' if comparison.regressed else 'no regression'}: {counts}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _changes(title: str, changes: Sequence[VerdictChange]) -> str:
    if not changes:
        return ""
    rows = [(change.rule, change.subject, change.before, change.after, change.reason) for change in changes]
    return f"{title}\n" + fitted(rows, ("rule", "subject", "base", "new", "reason"), (1, 4), (0.45, 0.55))
