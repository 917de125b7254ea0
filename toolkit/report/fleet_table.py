"""A fleet's answer as text: how many of each, what is new, what is broken where, then the nodes that need something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolkit.fleet.answer import GREEN, Change, Contrast, FleetAnswer, Hole, Node, Outlier, RuleFound
from toolkit.fleet.facts import Separating
from toolkit.fleet.values import WaiverState
from toolkit.model.node_record import NodeOutcome
from toolkit.report.layout import bullets, fitted, paragraph
from toolkit.report.text import printable
from toolkit.text.wording import and_more, count, digits, first_lines, first_of

ALL_ROWS = 20
"""Of so many nodes each has a row; of more only those that are not green, unless all are asked for."""
MAX_ROWS = 60
MAX_LINES = 10
EVERY = "(--verbose, --json)"
"""Where the rest is, of a list that is cut."""
NAMES = 8


def render_fleet(answer: FleetAnswer, *, verbose: bool = False) -> str:
    """Return the text. :param verbose: every node, every line."""
    most = len(answer.nodes) + len(answer.outliers) + len(answer.blind_spots) if verbose else MAX_LINES
    parts = [
        paragraph(headline(answer)),
        _new(answer, most),
        _rules("Rules that did not pass, by class", answer.rules, most),
        _contrasts(answer.contrasts, most),
        _nodes(answer.nodes, verbose=verbose),
        _classes(answer),
        _outliers(answer, most),
        _holes(answer.holes, most),
        _blind_spots(answer, most),
        _twice(answer, most),
        _waivers(answer),
        paragraph(f"{answer.outcome.value.upper()}: {headline(answer)}"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def headline(answer: FleetAnswer) -> str:
    """Return how many of each, and what is missing."""
    nodes = [row for row in answer.nodes if row.expected]
    text = f"{count(len(answer.nodes), 'node')}: {counted(answer.counts)}"
    if answer.expected is not None:
        missing = answer.counts.get(NodeOutcome.NEVER, 0)
        text += f"; {answer.expected} expected, {missing} of them never reported"
        others = len(answer.nodes) - len(nodes)
        text += f", {others} reported without being expected" if others else ""
    borne = [one for one in answer.counts if one in answer.accepted]
    text += f"; accepted: {', '.join(borne)}" if borne else ""
    return text + "."


def counted(counts: Mapping[NodeOutcome, int]) -> str:
    """Write ``3 failed, 1 stale, 96 passed``."""
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items())


def _more(lines: Sequence[str], most: int) -> list[str]:
    return first_lines(lines, most, EVERY)


def _rest(left: int) -> str:
    """Return the line below a table that is cut."""
    return f"\n{and_more(left).lstrip()} {EVERY}" if left > 0 else ""


def _new(answer: FleetAnswer, most: int) -> str:
    if answer.changes is None:
        return ""
    changes = answer.changes
    lines = [
        *_changed("worse", changes.worse),
        *_changed("better", changes.better),
        *_changed("otherwise", changes.others),
        *(f"new: {rule_line(one)}" for one in changes.rules),
        *(f"new blind spot, {count(one.nodes, 'node')}: {one.text}" for one in answer.blind_spots if one.new),
    ]
    return f"New since {changes.since}\n" + bullets(_more(lines, most) or ["nothing"])


def _changed(word: str, changes: Sequence[Change]) -> Iterator[str]:
    """Yield one line for each way of changing, with the hosts."""
    ways: dict[str, list[str]] = {}
    for one in changes:
        way = f"{was(one.before)} to {was(one.after)}"
        ways.setdefault(way, []).append(one.host)
    for way, hosts in ways.items():
        yield f"{word}, {way}: {named(hosts)}"


def was(outcome: NodeOutcome | None) -> str:
    """Write an outcome; a host that is in one answer only has none in the other."""
    return "not there" if outcome is None else outcome.value


def named(hosts: Sequence[str], most: int = NAMES) -> str:
    """Name hosts, the first few of many."""
    return first_of(hosts, most)


def rule_line(one: RuleFound) -> str:
    """Write a rule that did not pass on a class as one line."""
    where = f" in {one.where}" if one.where else ""
    return (
        f"{one.rule} {one.outcome} on {one.nodes} of {count(one.of, 'node')} of {one.hardware} ({one.software}), "
        f"such as {one.host}{where}: {one.reason}"
    )


def _rules(title: str, rules: Sequence[RuleFound], most: int) -> str:
    if not rules:
        return ""
    rows = [
        (one.rule, one.outcome.value, f"{one.nodes}/{one.of}", f"{one.hardware}, {one.software}", _such(one))
        for one in rules[:most]
    ]
    text = f"{title}\n" + fitted(rows, ("rule", "outcome", "nodes", "class", "such as"), (3, 4), (0.4, 0.6))
    return text + _rest(len(rules) - most)


def _such(one: RuleFound) -> str:
    where = f" {one.where}" if one.where else ""
    return f"{one.host}:{where}: {one.reason}"


def fact_line(fact: Separating) -> str:
    """Write a fact that separates nodes as one line."""
    value = "" if fact.fact.startswith("cmdline ") and fact.value == "present" else f" {fact.value}"
    same = f" (the same nodes: {named(fact.same, 5)})" if fact.same else ""
    return (
        f"{fact.fact}{value}: {fact.bad_with} of {fact.bad} bad, {fact.good_with} of {fact.good} good nodes; "
        f"by chance {fact.p:.1g}, rate of false discoveries {fact.q:.1g}{same}"
    )


def _contrasts(contrasts: Sequence[Contrast], most: int) -> str:
    parts = [
        f"What separates the nodes that came out {one.question} from those that passed\n"
        + bullets(_more([fact_line(fact) for fact in one.facts], most))
        for one in contrasts[:most]
    ]
    return "\n\n".join(parts)


def _nodes(nodes: Sequence[Node], *, verbose: bool) -> str:
    shown = nodes if verbose or len(nodes) <= ALL_ROWS else [row for row in nodes if row.outcome not in GREEN]
    if not shown:
        return ""
    most = len(shown) if verbose else MAX_ROWS
    rows = [(row.host, row.outcome.value, node_cause(row)) for row in shown[:most]]
    title = "Nodes" if len(shown) == len(nodes) else "Nodes that are not green"
    text = f"{title}\n" + fitted(rows, ("node", "outcome", "why"), (2,), (1.0,))
    return text + _rest(len(shown) - most)


def node_cause(row: Node) -> str:
    """Write why a node came out so, on one line."""
    return "; ".join((row.cause, *row.notes, *(() if row.expected else ("it was not expected",))))


def _classes(answer: FleetAnswer) -> str:
    if len(answer.classes) < 2:
        return ""
    rows = [
        (one.hardware or "not known", one.software or "not known", counted(one.counts))
        for one in answer.classes[:MAX_ROWS]
    ]
    return "Classes\n" + fitted(rows, ("hardware", "software", "nodes"), (0, 1, 2), (0.35, 0.3, 0.35))


def outlier_line(one: Outlier) -> str:
    """Write an outlier as one line."""
    return (
        f"{one.host}: {one.scenario} {one.about} {one.measure} is {_number(one.value)}, of the {one.of} of its class "
        f"the median is {_number(one.median)} ({one.z:+.1f} standard deviations)"
    )


def _number(value: float) -> str:
    return digits(value) if value >= 0 else f"-{digits(-value)}"


def _outliers(answer: FleetAnswer, most: int) -> str:
    if not answer.outliers:
        return ""
    lines = _more([outlier_line(one) for one in answer.outliers], most)
    return f"Far from the others of their class: {count(answer.outliers_count, 'measure')}\n" + bullets(lines)


def hole_line(one: Hole) -> str:
    """Write what was judged nowhere on a class as one line."""
    if one.what == "sessions":
        return f"{one.hardware}: no conformance session, other classes have some"
    were = "was" if len(one.names) == 1 else "were"
    number = count(len(one.names), one.what[:-1])
    if one.what == "scenarios":
        text = f"{number} that other classes ran {were} not run here"
    elif one.anywhere:
        text = f"{number} that other classes judged {were} judged on no node here"
    else:
        text = f"{number} {were} judged on no node of the fleet"
    return f"{one.hardware}: {text}: {', '.join(one.names)}"


def _holes(holes: Sequence[Hole], most: int) -> str:
    here = [one for one in holes if one.anywhere]
    nowhere = next((one for one in holes if not one.anywhere), None)
    lines = _more([hole_line(one) for one in here], most)
    if nowhere is not None:
        lines.append(f"rules that no node judged: {', '.join(nowhere.names)}")
    return "Not covered\n" + bullets(lines) if lines else ""


def _blind_spots(answer: FleetAnswer, most: int) -> str:
    lines = [f"{'new, ' if one.new else ''}{count(one.nodes, 'node')}: {one.text}" for one in answer.blind_spots]
    return "Not seen\n" + bullets(_more(lines, most)) if lines else ""


def _twice(answer: FleetAnswer, most: int) -> str:
    return "Which machine is which\n" + bullets(_more([one.text for one in answer.twice], most)) if answer.twice else ""


def _waivers(answer: FleetAnswer) -> str:
    lines = [waiver_line(one) for one in answer.waivers]
    return "Waivers\n" + bullets(lines) if lines else ""


def waiver_line(one: WaiverState) -> str:
    """Write what became of a waiver as one line."""
    return f"{one.state}: {one.name}, {count(one.used, 'finding')}, until {one.until} ({one.issue}, {one.owner})"


def clean(text: str) -> str:
    """Make one line of text safe for a table of Markdown."""
    return printable(text).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
