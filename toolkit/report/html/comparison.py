"""What a gate answers as a page: the answer, what became worse, and how far each measure moved. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from markupsafe import Markup

from toolkit.fleet.values import BETTER, SAME, SUSPECT, UNDECIDED, WORSE, Comparison, MeasureChange, VerdictChange
from toolkit.report.comparison_table import counting, named, undecided_notes, verdict_line, waiver_notes
from toolkit.report.html.drawing import path, svg
from toolkit.report.html.page import Step, cut, explained, page
from toolkit.text.wording import first_of

MAX_ROWS = 200
NAMED = 3
WIDE, HIGH = 240, 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A measure. :param picture: its shift with the interval, beside the smallest effect."""

    about: str
    where: str
    status: str
    base: str
    new: str
    shift: str
    reason: str
    picture: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Findings of one kind. :param rows: what, before, after, why. :param more: how many have no row."""

    title: str
    outcome: str
    rows: tuple[tuple[str, str, str, str], ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a page shows of a comparison. :param base: what it is against, where that has a name.

    :param bases, news: the names of what was compared, on one line each; empty: not known.
    """

    outcome: str
    regressed: bool
    sentence: str
    base: str
    bases: str
    news: str
    base_runs: int
    new_runs: int
    tables: tuple[Table, ...]
    spots: tuple[str, ...]
    measures: tuple[Moved, ...]
    more_measures: int
    same: int
    undecided: tuple[str, ...]
    environment: tuple[tuple[str, str, str], ...]
    waivers: tuple[str, ...]
    again: tuple[Step, ...]


def difference(comparison: Comparison, base: str = "") -> Difference:
    """Return what is shown of a comparison."""
    moved = [one for one in comparison.measures if one.status not in (SAME, UNDECIDED)]
    order = {WORSE: 0, SUSPECT: 1, BETTER: 2}
    moved.sort(key=lambda one: (bool(one.waived), order.get(one.status, 3)))
    rules = dict.fromkeys(
        [one.rule for one in (*comparison.regressions, *comparison.required)]
        + [one.rule for one in counting(comparison, WORSE)]
    )  # fmt: skip
    return Difference(
        outcome=str(comparison.outcome),
        regressed=comparison.regressed,
        sentence=_sentence(comparison),
        base=base,
        bases=first_of(comparison.bases, NAMED),
        news=first_of(comparison.news, NAMED),
        base_runs=comparison.base_runs,
        new_runs=comparison.new_runs,
        tables=tuple(_tables(comparison)),
        spots=tuple(map(cut, comparison.new_blind_spots[:MAX_ROWS])),
        measures=tuple(map(_moved, moved[:MAX_ROWS])),
        more_measures=max(0, len(moved) - MAX_ROWS),
        same=sum(one.status == SAME for one in comparison.measures),
        undecided=tuple(undecided_notes(comparison)),
        environment=tuple((one.name, one.before, one.after) for one in comparison.environment),
        waivers=tuple(waiver_notes(comparison)),
        again=tuple(_again(comparison, [rule for rule in rules if rule not in ("scenario", "blind-spot")])),
    )


def _sentence(comparison: Comparison) -> str:
    """Return the gate's line, for a reader that does not know what it counts."""
    return f"{verdict_line(comparison)} (verdicts and measures)"


def _again(comparison: Comparison, rules: Sequence[str]) -> Iterator[Step]:
    yield from explained(rules, 3)
    worse = dict.fromkeys(one.scenario for one in (*comparison.regressions, *comparison.required) if one.scenario)
    if worse:
        selected = "".join(f" --select {quote(name)}" for name in list(worse)[:6])
        yield Step(f"sudo pinproof conformance{selected}", "repeat what is worse on its node, then compare once more")
    yield Step(_command(comparison), "everything that was compared, also what is the same")


def _command(comparison: Comparison) -> str:
    """Return what compares them again; the sides stand for themselves where they are not known, or many."""
    sides = [f"--base {quote(one)}" for one in comparison.bases] + [f"--new {quote(one)}" for one in comparison.news]
    known = comparison.bases and comparison.news and len(sides) <= 2 * NAMED
    return f"pinproof compare {' '.join(sides) if known else 'BASE NEW'} --json"


def comparison_page(comparison: Comparison, name: str = "") -> str:
    """Return the page."""
    view = difference(comparison)
    return page("comparison.html", title=f"{view.outcome}: {name or 'comparison'}", name=name, difference=view)


def _tables(comparison: Comparison) -> Iterator[Table]:
    for title, outcome, found in (
        ("Worse", "failed", comparison.regressions),
        ("Not passed", "failed", comparison.required),
        ("Better", "better", comparison.improvements),
        ("Other changes", "undecided", comparison.other_changes),
        ("Waived", "waived", comparison.waived),
    ):
        if found:
            yield Table(title=title, outcome=outcome, rows=tuple(_rows(found)), more=max(0, len(found) - MAX_ROWS))


def _rows(found: Sequence[VerdictChange]) -> Iterable[tuple[str, str, str, str]]:
    for one in found[:MAX_ROWS]:
        yield named(one), one.before, one.after, cut("; ".join(filter(None, (one.reason, one.waived))))


def _moved(one: MeasureChange) -> Moved:
    unit = f" {one.unit}" if one.unit else ""
    interval = "" if one.low is None or one.high is None else f" ({one.low:+.4g} to {one.high:+.4g})"
    return Moved(
        about=" ".join(filter(None, (one.rule, one.subject, one.measure))),
        where=", ".join(filter(None, (one.node, one.scenario))),
        status="waived" if one.waived else one.status,
        base=f"{one.base:.6g}{unit}",
        new=f"{one.new:.6g}{unit}",
        shift="" if one.shift is None else f"{one.shift:+.4g}{interval}{unit}",
        reason=cut("; ".join(filter(None, (one.reason, one.waived)))),
        picture=_picture(one),
    )


def _picture(one: MeasureChange) -> Markup:
    """Draw the shift and its interval on a line, with the band within which a difference is none."""
    shift = one.new - one.base if one.shift is None else one.shift
    low, high = (shift if one.low is None else one.low), (shift if one.high is None else one.high)
    most = max(abs(low), abs(high), abs(shift), one.smallest) * 1.15 or 1.0

    def x(value: float) -> int:
        return round(WIDE / 2 + value / most * (WIDE / 2 - 4))

    label = f"shift {shift:+.4g}, interval {low:+.4g} to {high:+.4g}, smallest effect {one.smallest:.4g}"
    middle = HIGH // 2
    return svg(
        f"shift {one.status}",
        (WIDE, HIGH),
        [
            path(f"M{x(-one.smallest)} 3H{x(one.smallest)}V{HIGH - 3}H{x(-one.smallest)}z", "band"),
            path(f"M{WIDE // 2} 0V{HIGH}", "zero"),
            path(f"M{x(low)} {middle}H{x(high)}", "interval"),
            path(f"M{x(shift) - 4} {middle}l4 -4l4 4l-4 4z", "point"),
        ],
        label=label,
    )
