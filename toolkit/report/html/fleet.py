"""A fleet's answer as a page: how many of each, what is new, what is broken where, then every node. Pure.

The first rows of nodes are part of the page; all of them lie beside, compressed, and are drawn when they are scrolled
to or looked for. What even that has no room for is counted.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from shlex import quote

from markupsafe import Markup

from toolkit.fleet.answer import GREEN, Change, ClassCount, FleetAnswer, Node, RuleFound, place
from toolkit.model.node_record import NodeOutcome
from toolkit.report.fleet_table import (
    fact_line,
    headline,
    hole_line,
    named,
    node_cause,
    outlier_line,
    rule_line,
    waiver_line,
    was,
)
from toolkit.report.html.drawing import group, path, svg
from toolkit.report.html.page import Step, cut, explained, page
from toolkit.text.names import printable
from toolkit.text.wording import count, first_lines

MAX_BYTES = 1_500_000
DRAWN = 200
"""Nodes whose rows are part of the page."""
MAX_PACKED = 1_000_000
"""Characters of the compressed rows; those of 30,000 nodes have room."""
MAX_LINES = 30
WIDE, HIGH = 1000, 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A node. :param rules: what did not pass there."""

    host: str
    outcome: str
    cause: str
    rules: str
    hardware: str
    software: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """Nodes that are built alike and run alike. :param bar: how they came out, drawn; ``counts`` has the numbers."""

    hardware: str
    software: str
    counts: dict[str, int]
    bar: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What a page shows of a fleet. :param packed: all rows, gzip in base64; empty: those that are drawn are all.

    :param kept: how many rows ``packed`` has. :param lists: title -> lines of what else is to be known.
    """

    outcome: str
    sentence: str
    made_at: str
    words: str
    counts: dict[str, int]
    bar: Markup
    since: str
    news: tuple[str, ...]
    rules: tuple[RuleFound, ...]
    more_rules: int
    contrasts: tuple[tuple[str, tuple[str, ...]], ...]
    classes: tuple[Class, ...]
    more_classes: int
    rows: tuple[Row, ...]
    packed: str
    kept: int
    total: int
    lists: tuple[tuple[str, tuple[str, ...]], ...]
    again: tuple[Step, ...]


def fleet_page(answer: FleetAnswer, name: str = "") -> str:
    """Return the page. :param name: of the answer, for people."""
    view = _view(answer)
    return page("fleet.html", title=f"{view.outcome}: {view.words}", programs=["fleet.js"], fleet=view, name=name)


def _view(answer: FleetAnswer) -> FleetView:
    nodes = sorted(answer.nodes, key=lambda one: (place(one.outcome), one.host))
    packed, kept = _packed(nodes) if len(nodes) > DRAWN else ("", len(nodes))
    number = f"{len(nodes):,} node{'' if len(nodes) == 1 else 's'}"
    bad = sum(one.outcome not in GREEN for one in nodes)
    return FleetView(
        outcome=str(answer.outcome),
        sentence=headline(answer),
        made_at=answer.made_at,
        words=f"{bad:,} of {number} did not pass" if bad else f"All of {number} passed",
        counts=_counts(answer.counts),
        bar=_bar(answer.counts),
        since="" if answer.changes is None else answer.changes.since,
        news=tuple(_news(answer)),
        rules=answer.rules[:MAX_LINES],
        more_rules=max(0, len(answer.rules) - MAX_LINES),
        contrasts=tuple(
            (one.question, tuple(first_lines([fact_line(fact) for fact in one.facts], 8)))
            for one in answer.contrasts[:8]
        ),
        classes=tuple(
            Class(hardware=one.hardware, software=one.software, counts=_counts(one.counts), bar=_bar(one.counts))
            for one in sorted(answer.classes, key=_good)[:MAX_LINES]
        ),
        more_classes=max(0, len(answer.classes) - MAX_LINES),
        rows=tuple(map(_row, nodes[:DRAWN])),
        packed=packed,
        kept=kept,
        total=len(nodes),
        lists=tuple(_lists(answer)),
        again=tuple(_again(answer, nodes)),
    )


def _good(one: ClassCount) -> float:
    """Return the share of nodes that are green: classes with the fewest stand first."""
    return sum(number for outcome, number in one.counts.items() if outcome in GREEN) / (sum(one.counts.values()) or 1)


def _counts(counts: Mapping[NodeOutcome, int]) -> dict[str, int]:
    return {one.value: counts[one] for one in sorted(counts, key=place)}


def _bar(counts: Mapping[NodeOutcome, int]) -> Markup:
    """Draw how many came out how, the worst first; the numbers stand beside it."""
    total, left, parts = sum(counts.values()) or 1, 0.0, []
    for outcome in sorted(counts, key=place):
        width = counts[outcome] / total * WIDE
        kind = {NodeOutcome.FAILED: "failed", NodeOutcome.PASSED: "passed", NodeOutcome.WAIVED: "passed"}
        shape = path(f"M{left:.1f} 0H{left + width:.1f}V{HIGH}H{left:.1f}z", kind.get(outcome, "other"))
        parts.append(group("part", [shape], f"{counts[outcome]} {outcome.value}"))
        left += width
    label = ", ".join(f"{number} {outcome}" for outcome, number in _counts(counts).items())
    return svg("bar", (WIDE, HIGH), parts, label=label or "no node", stretched=True)


def _row(node: Node) -> Row:
    return Row(
        host=node.host,
        outcome=node.outcome.value,
        cause=cut(node_cause(node)),
        rules=", ".join(f"{rule} {outcome}" for rule, outcome in islice(node.not_passed.items(), 8)),
        hardware=node.hardware,
        software=node.software,
        at=node.at,
    )


def _packed(nodes: Sequence[Node]) -> tuple[str, int]:
    """Return the rows as compressed JSON, and how many there was room for. What is equal stands once in it."""
    kept = len(nodes)
    while True:
        rows = [
            [
                printable(text)
                for text in (row.host, row.outcome, row.cause, row.rules, row.hardware, row.software, row.at)
            ]
            for row in map(_row, nodes[:kept])
        ]
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")
        if len(packed) <= MAX_PACKED:
            return packed, kept
        kept = min(kept - 1, kept * MAX_PACKED // len(packed))


def _news(answer: FleetAnswer) -> Iterable[str]:
    changes = answer.changes
    if changes is None:
        return []
    lines = [f"new: {rule_line(one)}" for one in changes.rules]
    for word, found in (("worse", changes.worse), ("better", changes.better), ("otherwise", changes.others)):
        lines += [f"{word}, {way}: {named(hosts)}" for way, hosts in _ways(found).items()]
    lines += [f"new blind spot, {count(one.nodes, 'node')}: {one.text}" for one in answer.blind_spots if one.new]
    return map(cut, first_lines(lines or ["nothing"], MAX_LINES))


def _ways(changes: Iterable[Change]) -> dict[str, list[str]]:
    ways: dict[str, list[str]] = {}
    for one in changes:
        ways.setdefault(f"{was(one.before)} to {was(one.after)}", []).append(one.host)
    return ways


def _lists(answer: FleetAnswer) -> Iterable[tuple[str, tuple[str, ...]]]:
    for title, lines in (
        (f"Far from the others of their class: {count(answer.outliers_count, 'measure')}",
         [outlier_line(one) for one in answer.outliers]),
        ("Not covered", [hole_line(one) for one in answer.holes]),
        ("What was not seen", [f"{count(one.nodes, 'node')}: {one.text}" for one in answer.blind_spots]),
        ("Which machine is which", [one.text for one in answer.twice]),
        ("Waivers", [waiver_line(one) for one in answer.waivers]),
    ):  # fmt: skip
        if lines:
            yield title, tuple(map(cut, first_lines(lines, MAX_LINES)))


def _again(answer: FleetAnswer, nodes: Sequence[Node]) -> Iterable[Step]:
    """Yield what explains the worst, what shows one node of it, and what asks again."""
    yield from explained((one.rule for one in answer.rules), 2)
    first = next((one for one in nodes if one.outcome is NodeOutcome.FAILED and one.sources), None)
    if first is not None:
        source = next((one for one in first.sources if one.counts and one.outcome is first.outcome), first.sources[0])
        command = f"pinproof report {quote(source.path)} --html {quote(first.host + '.html')}"
        yield Step(command, f"one of the nodes that failed, {first.host}, in full")
    yield Step("pinproof fleet RESULTS --json > today.json", "keep this answer; next time add --against today.json")
