"""A comparison as text: what differs in the environment first, then what became worse, then what became better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.fleet.values import BETTER, SAME, SUSPECT, UNDECIDED, WORSE, Comparison, MeasureChange, VerdictChange
from toolkit.report.layout import bullets, fitted, paragraph
from toolkit.text.wording import count, first_lines

MAX_UNDECIDED = 12
"""Measures that the repeats cannot judge and that are shown: those that differ most."""


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
    parts.append(_measures("Measures that are worse", counting(comparison, WORSE)))
    parts.append(_measures("Measures that are suspect: one more repeat must show it", counting(comparison, SUSPECT)))
    parts.append(_changes("Not passed", comparison.required))
    parts.append(_changes("Better", comparison.improvements))
    parts.append(_measures("Measures that are better", counting(comparison, BETTER)))
    parts.append(_changes("Other changes", comparison.other_changes))
    parts += _open(comparison)
    waived = [f"{named(one)}: {one.after}; {one.waived}" for one in comparison.waived]
    waived += [f"{measured(one)}; {one.waived}" for one in comparison.measures if one.waived]
    if waived:
        parts.append("Waived\n" + bullets(waived))
    if states := waiver_notes(comparison):
        parts.append("Waivers\n" + bullets(states))
    parts.append(paragraph(verdict_line(comparison)))
    return "\n\n".join(part for part in parts if part) + "\n"


def counting(comparison: Comparison, status: str) -> list[MeasureChange]:
    """Return the measures of a status that are not waived."""
    return [one for one in comparison.measures if one.status == status and not one.waived]


def waiver_notes(comparison: Comparison) -> list[str]:
    """Return the waivers that are expired or that nothing needs."""
    return [
        f"{one.name}: {one.state} (until {one.until}, {one.owner}, {one.issue})"
        for one in comparison.waivers
        if one.state != "used"
    ]


def verdict_line(comparison: Comparison) -> str:
    """Return the gate's answer in one line."""
    head = "REGRESSED" if comparison.regressed else "no regression"
    if not comparison.regressed and comparison.required:
        head = "NOT PASSED"
    if counting(comparison, SUSPECT) and not comparison.regressed:
        head += ", but suspect"
    worse = len(comparison.regressions) + len(counting(comparison, WORSE))
    better = len(comparison.improvements) + len(counting(comparison, BETTER))
    waived = len(comparison.waived) + sum(bool(one.waived) for one in comparison.measures)
    parts = [
        f"{worse} worse",
        count(len(comparison.new_blind_spots), "new blind spot"),
        *([f"{len(comparison.required)} not passed"] if comparison.required else []),
        f"{better} better",
        f"{comparison.unchanged} unchanged",
        *([f"{waived} waived"] if waived else []),
    ]
    runs = f" ({comparison.base_runs} against {count(comparison.new_runs, 'run')})" if comparison.new_runs > 1 else ""
    return f"{head}: {', '.join(parts)}{runs}"


def named(change: VerdictChange) -> str:
    """Name a finding in one line."""
    place = ", ".join(filter(None, (change.node, change.scenario if change.scenario != change.subject else "")))
    return f"{change.rule} {change.subject}" + (f" ({place})" if place else "")


def measured(change: MeasureChange) -> str:
    """Say in one line how a measure differs."""
    unit = f" {change.unit}" if change.unit else ""
    about = " ".join(filter(None, (change.scenario, change.rule, change.subject, change.measure)))
    interval = "" if change.low is None or change.high is None else f" ({change.low:+.4g} to {change.high:+.4g})"
    moved = "" if change.shift is None else f", shift {change.shift:+.4g}{interval}"
    place = f"{change.node}: " if change.node else ""
    return f"{place}{about}: {change.base:.6g} -> {change.new:.6g}{unit}{moved}"


def beyond(change: MeasureChange) -> bool:
    """Say whether the medians differ by more than the smallest effect."""
    return abs(change.new - change.base) > change.smallest


def undecided_notes(comparison: Comparison) -> list[str]:
    """Return why measures could not be judged -> of how many, and which differ most all the same."""
    found = counting(comparison, UNDECIDED)
    reasons: dict[str, int] = {}
    for one in found:
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    return [f"{count(number, 'measure')}: {reason}" for reason, number in reasons.items()]


def most_different(comparison: Comparison) -> list[MeasureChange]:
    """Return the measures that could not be judged and differ by more than their smallest effect, most first."""
    found = [one for one in counting(comparison, UNDECIDED) if beyond(one) and one.base_repeats and one.new_repeats]
    return sorted(found, key=lambda one: -abs(one.new - one.base) / (one.smallest or 1e-12))


def _open(comparison: Comparison) -> Iterable[str]:
    notes = undecided_notes(comparison)
    if not notes:
        return
    different = most_different(comparison)
    shown = first_lines([measured(one) for one in different], MAX_UNDECIDED, "(--json)")
    head = "Differ, but cannot be judged" if shown else ""
    yield "\n".join(filter(None, ("Measures that could not be judged", bullets(notes))))
    if shown:
        yield f"{head}\n{bullets(shown)}"


def _measures(title: str, changes: Sequence[MeasureChange]) -> str:
    if not changes:
        return ""
    kept = [f"{measured(one)}" + (f"; {one.reason}" if one.reason else "") for one in changes if one.status != SAME]
    return f"{title}\n" + bullets(kept)


def _changes(title: str, changes: Sequence[VerdictChange]) -> str:
    if not changes:
        return ""
    several = len({(change.node, change.scenario) for change in changes}) > 1
    rows = [
        (
            *((_place(change),) if several else ()),
            *(change.rule, change.subject, change.before, change.after, change.reason),
        )
        for change in changes
    ]
    if several:
        headers = ("where", "rule", "subject", "base", "new", "reason")
        return f"{title}\n" + fitted(rows, headers, (0, 2, 5), (0.25, 0.3, 0.45))
    return f"{title}\n" + fitted(rows, ("rule", "subject", "base", "new", "reason"), (1, 4), (0.45, 0.55))


def _place(change: VerdictChange) -> str:
    return " ".join(filter(None, (change.node, change.scenario)))
