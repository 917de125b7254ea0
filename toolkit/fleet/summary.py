"""One answer of many hosts: how many of each, what is new, what is broken where, and what bad nodes have in common."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime

from toolkit.fleet.answer import (
    GREEN,
    Change,
    Changes,
    ClassCount,
    Contrast,
    FleetAnswer,
    Hole,
    Node,
    RuleFound,
    Twice,
    Unseen,
    place,
    total,
)
from toolkit.fleet.facts import Facts, separating
from toolkit.fleet.hosts import Gathered, Host, hosts_of, label
from toolkit.fleet.outliers import outliers_of
from toolkit.fleet.policy import Policy
from toolkit.fleet.reading import Report
from toolkit.fleet.waiving import Waiving
from toolkit.model.node_record import NodeOutcome
from toolkit.model.verdict import Outcome, rank
from toolkit.text.wording import listed
from validators.registry import RULES

SMALLEST_CONTRAST = 2
"""Bad nodes, and good ones, without which nothing is asked of them."""


def answer_of(
    gathered: Gathered,
    *,
    expected: Collection[str] | None,
    last: FleetAnswer | None,
    now_s: float,
    max_age_s: float,
    policy: Policy,
    accepted: Sequence[NodeOutcome] = (),
) -> tuple[FleetAnswer, list[Host]]:
    """Put the answer together. :param expected: hosts that must report.

    :param last: the answer before. :param policy: its waivers hold. :param accepted: outcomes that are borne with.
    """
    waiving = Waiving(policy, datetime.fromtimestamp(now_s, UTC))
    hosts = hosts_of(gathered, expected, now_s, max_age_s, waiving)
    rows = [host.row for host in hosts]
    counts = Counter(row.outcome for row in rows)
    rules = _rules(hosts)
    outliers, number = outliers_of(hosts)
    answer = FleetAnswer(
        outcome=total(counts),
        made_at=datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_age_s=max_age_s,
        counts=_ordered(counts),
        accepted=tuple(sorted(set(accepted), key=place)),
        expected=None if expected is None else len(set(expected)),
        changes=None if last is None else _changes(rows, rules, last),
        classes=_classes(rows),
        rules=rules,
        contrasts=tuple(_contrasts(hosts)),
        outliers=outliers,
        outliers_count=number,
        holes=tuple(_holes(hosts)),
        blind_spots=_blind_spots(hosts, last),
        twice=tuple(_twice(rows, hosts)),
        waivers=waiving.states(),
        nodes=tuple(rows),
    )
    return answer, hosts


def _ordered(counts: Counter[NodeOutcome]) -> dict[NodeOutcome, int]:
    return {outcome: counts[outcome] for outcome in sorted(counts, key=place)}


def _classes(rows: Sequence[Node]) -> tuple[ClassCount, ...]:
    found: dict[tuple[str, str], Counter[NodeOutcome]] = defaultdict(Counter)
    for row in rows:
        found[row.hardware, row.software][row.outcome] += 1
    ordered = sorted(found.items(), key=lambda one: (-sum(one[1].values()), one[0]))
    return tuple(ClassCount(hardware=hw, software=sw, counts=_ordered(counts)) for (hw, sw), counts in ordered)


def _rules(hosts: Sequence[Host]) -> tuple[RuleFound, ...]:
    """Return which rule did not pass on which class, the most nodes first."""
    judged: Counter[tuple[str, str, str]] = Counter()
    broken: dict[tuple[str, str, str, Outcome], list[tuple[str, Report]]] = defaultdict(list)
    for host in hosts:
        seen: dict[tuple[str, str, str], tuple[Outcome, Report]] = {}
        for report in host.reports:
            for rule, outcome in _named(report):
                key = rule, label(report), report.software
                if key not in seen or rank(outcome) < rank(seen[key][0]):
                    seen[key] = outcome, report
        for key, (outcome, report) in seen.items():
            judged[key] += 1
            if outcome in (Outcome.FAILED, Outcome.UNDECIDED):
                broken[(*key, outcome)].append((host.row.host, report))
    rows = []
    for (rule, hardware, software, outcome), nodes in broken.items():
        host_name, report = nodes[0]
        first = next((one for one in report.findings if one.rule == rule and one.outcome is outcome), None)
        rows.append(
            RuleFound(
                rule=rule,
                outcome=outcome,
                hardware=hardware,
                software=software,
                nodes=len(nodes),
                of=judged[rule, hardware, software],
                host=host_name,
                where=" ".join(part for part in (first.scenario, first.subject) if part) if first else "",
                reason=first.reason if first else "",
            )
        )
    return tuple(sorted(rows, key=lambda one: (rank(one.outcome), -one.nodes, one.rule, one.hardware, one.software)))


def _named(report: Report) -> Iterator[tuple[str, Outcome]]:
    """Yield each rule with its outcome; what failed before a rule judged has none."""
    yield from report.judged
    without = [one.outcome for one in report.findings if not one.rule]
    if without:
        yield "(no rule)", min(without, key=rank)


def _contrasts(hosts: Sequence[Host]) -> Iterator[Contrast]:
    """Yield what separates nodes that failed, that are undecided, and that failed one rule, from those that passed."""
    of_host = {host.row.host: _facts(host) for host in hosts if host.reports}
    by_outcome: dict[NodeOutcome, set[str]] = defaultdict(set)
    for host in hosts:
        if host.reports:
            by_outcome[host.row.outcome].add(host.row.host)
    good = by_outcome[NodeOutcome.PASSED]
    asked: set[frozenset[str]] = set()
    questions: list[tuple[str, set[str], set[str]]] = [
        ("failed", by_outcome[NodeOutcome.FAILED], good),
        ("undecided", by_outcome[NodeOutcome.UNDECIDED], good),
    ]
    worst_of: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for host in hosts:
        for report in host.reports:
            for rule, outcome in report.judged:
                before = worst_of[rule].get(host.row.host)
                if before is None or rank(outcome) < rank(before):
                    worst_of[rule][host.row.host] = outcome
    for rule, outcomes in sorted(worst_of.items()):
        for bad in (Outcome.FAILED, Outcome.UNDECIDED):
            hit = {name for name, one in outcomes.items() if one is bad}
            questions.append((f"{rule} {bad}", hit, {name for name, one in outcomes.items() if one is Outcome.PASSED}))
    for question, bad_hosts, good_hosts in questions:
        if min(len(bad_hosts), len(good_hosts)) < SMALLEST_CONTRAST or frozenset(bad_hosts) in asked:
            continue
        asked.add(frozenset(bad_hosts))
        found = separating({one: of_host[one] for one in bad_hosts}, {one: of_host[one] for one in good_hosts})
        if found:
            yield Contrast(question=question, facts=found)


def _facts(host: Host) -> Facts:
    """Return the facts of a host: of several reports the later one's word."""
    if len(host.reports) == 1:
        return host.reports[0].facts
    merged: dict[str, str] = {}
    for report in sorted(host.reports, key=lambda one: one.ended_s or 0.0):
        merged.update(report.facts)
    return tuple(merged.items())


def _holes(hosts: Sequence[Host]) -> Iterator[Hole]:
    scenarios: dict[str, set[str]] = defaultdict(set)
    rules: dict[str, set[str]] = defaultdict(set)
    sessions: set[str] = set()
    for host in hosts:
        for report in host.reports:
            if report.broken:
                continue
            rules[label(report)].update(rule for rule, _ in report.judged)
            if report.kind == "conformance":
                sessions.add(label(report))
                scenarios[label(report)].update(name for name, _ in report.scenarios)
    all_scenarios = set().union(*scenarios.values())
    all_rules = set().union(*rules.values()) if rules else set()
    for hardware in sorted(rules):
        if sessions and hardware not in sessions:
            yield Hole(hardware=hardware, what="sessions", names=("conformance",), anywhere=True)
        elif lacking := sorted(all_scenarios - scenarios[hardware]):
            yield Hole(hardware=hardware, what="scenarios", names=tuple(lacking), anywhere=True)
        if lacking := sorted(all_rules - rules[hardware]):
            yield Hole(hardware=hardware, what="rules", names=tuple(lacking), anywhere=True)
        if lacking := sorted({rule.id for rule in RULES} - all_rules):
            yield Hole(hardware=hardware, what="rules", names=tuple(lacking), anywhere=False)


def _blind_spots(hosts: Sequence[Host], last: FleetAnswer | None) -> tuple[Unseen, ...]:
    nodes: Counter[str] = Counter()
    for host in hosts:
        nodes.update({text for report in host.reports for text in report.blind_spots})
    known = None if last is None else {one.text for one in last.blind_spots}
    ordered = sorted(nodes.items(), key=lambda one: (-one[1], one[0]))
    return tuple(
        Unseen(text=text, nodes=number, new=known is not None and text not in known) for text, number in ordered
    )


def _twice(rows: Sequence[Node], hosts: Sequence[Host]) -> Iterator[Twice]:
    machines: dict[str, list[Node]] = defaultdict(list)
    for row in rows:
        if row.machine:
            machines[row.machine].append(row)
    for machine, those in sorted(machines.items()):
        if len(those) > 1:
            boots = {row.boot_id for row in those if row.boot_id}
            why = (
                "and were booted once: they are one machine, and another was not looked at"
                if len(boots) == 1
                else "and other boots: one machine that was renamed, or machines with one copied /etc/machine-id"
            )
            names = tuple(row.host for row in those)
            yield Twice(machines=(machine,), hosts=names, text=f"{listed(names)} have one machine id {why}")
    for host in hosts:
        found = tuple(sorted({report.machine for report in host.reports if report.machine}))
        if len(found) > 1:
            text = f"{host.row.host} is {len(found)} machines: it was made anew, or two nodes have one name"
            yield Twice(machines=found, hosts=(host.row.host,), text=text)


def _changes(rows: Sequence[Node], rules: Sequence[RuleFound], last: FleetAnswer) -> Changes:
    before = {row.host: row.outcome for row in last.nodes}
    after = {row.host: row.outcome for row in rows}
    worse, better, others = [], [], []
    for host in sorted({*before, *after}):
        was, now = before.get(host), after.get(host)
        if was is now:
            continue
        change = Change(host=host, before=was, after=now)
        if now is not None and now not in GREEN and (was is None or was in GREEN or place(now) < place(was)):
            worse.append(change)
        elif now is not None and now in GREEN and was is not None and was not in GREEN:
            better.append(change)
        else:
            others.append(change)
    known = {(one.rule, one.outcome, one.hardware, one.software) for one in last.rules}
    new = tuple(one for one in rules if (one.rule, one.outcome, one.hardware, one.software) not in known)
    return Changes(since=last.made_at, worse=tuple(worse), better=tuple(better), others=tuple(others), rules=new)
