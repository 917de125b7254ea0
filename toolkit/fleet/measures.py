"""What a gate says of measures: which shifted, by how much, and whether the repeats can show it.

One node is compared with itself: a repeat is one run, base and new by turns. Of a rollout the unit is the node: its
difference between before and after, against the nodes that were not rolled out where there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from toolkit.fleet import statistics, values
from toolkit.fleet.exact import false_discovery
from toolkit.fleet.observed import Observed
from toolkit.fleet.policy import Policy
from toolkit.fleet.values import SAME, SUSPECT, UNDECIDED, WORSE, MeasureChange
from toolkit.model.measures import Better, Kind, MeasureKind
from toolkit.model.verdict import Outcome
from toolkit.text.wording import count

Key = tuple[str, str, str, str]
"""Scenario, rule, subject, measure."""
KindOf = Callable[[str, str], MeasureKind | None]
FALSE_DISCOVERIES = 0.1
"""One in ten of what is suspect may be chance: one more repeat follows before anything is red."""
MIN_CONTROLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Runs that are compared with each other: those of one node, or of a rollout's nodes of one hardware class.

    :param name: of the node, or of the class. :param paired: the unit is the node.
    """

    name: str
    base: tuple[Observed, ...]
    new: tuple[Observed, ...]
    confirm: tuple[Observed, ...] = ()
    control: frozenset[str] = frozenset()
    paired: bool = False
    hardware: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A measure whose repeats suffice, on its way through the tests."""

    change: MeasureChange
    base: tuple[float, ...]
    """Empty: ``new`` are differences of pairs."""
    new: tuple[float, ...]
    confirm: tuple[float, ...]
    """Differences from ``base``'s median, or of pairs."""


def compare_measures(groups: Iterable[Group], policy: Policy, kind_of: KindOf) -> tuple[MeasureChange, ...]:
    """Compare all measures of all groups; false discoveries are controlled among all of them together."""
    found: list[MeasureChange] = []
    asked: list[_Asked] = []
    for group in groups:
        for key in _keys(group):
            kind = kind_of(key[1], key[3])
            effect = None if kind is None else policy.effect(key[1], key[3], kind)
            if effect is None or not effect.gated:
                continue
            if effect.kind is Kind.WORD:
                found += _exact(group, key, effect)
            elif effect.better is not Better.NEITHER:
                one = _one(group, key, effect, policy)
                if isinstance(one, _Asked):
                    asked.append(one)
                else:
                    found.append(one)
    return (*found, *_tested(asked))


def _keys(group: Group) -> list[Key]:
    sides = [
        {
            (scenario.name, *about.partition(" ")[::2], name)
            for one in side
            for scenario in one.scenarios
            for about, numbers in scenario.measures.items()
            for name in numbers
        }
        for side in (group.base, group.new)
    ]
    return sorted(sides[0] & sides[1])


def _values(side: Iterable[Observed], key: Key) -> list[tuple[str, float]]:
    """Return node and value of each run that has one."""
    scenario, rule, subject, name = key
    found = []
    for one in side:
        here = one.scenario(scenario)
        if here is None or here.verdicts.get((rule, subject), (None,))[0] is Outcome.UNDECIDED:
            continue  # what could not be judged was not measured as it should be
        value = here.measures.get(f"{rule} {subject}", {}).get(name)
        if value is not None:
            found.append((one.node, float(value)))
    return found


def _change(group: Group, key: Key, kind: MeasureKind, base: Sequence[float], new: Sequence[float]) -> MeasureChange:
    before = median(base) if base else 0.0
    smallest = max((kind.relative or 0.0) * abs(before), kind.absolute)
    return MeasureChange(
        node=group.name,
        scenario=key[0],
        rule=key[1],
        subject=key[2],
        measure=key[3],
        unit=kind.unit,
        better=kind.better,
        base=before,
        new=median(new) if new else 0.0,
        base_repeats=len(base),
        new_repeats=len(new),
        smallest=smallest,
        status=SAME,
        hardware=group.hardware,
    )


def _exact(group: Group, key: Key, kind: MeasureKind) -> list[MeasureChange]:
    """Of a word, such as a period, any other value is wrong; no statistics are needed."""
    before = [value for _, value in _values(group.base, key)]
    after = [value for _, value in _values(group.new, key)]
    if not before or not after:
        return []
    change = _change(group, key, kind, before, after)
    others = sorted(set(after) - set(before))
    if not others:
        return [replace(change, exact=True)]
    shown = ", ".join(f"{one:.12g}" for one in others)
    reason = f"{shown} instead of {', '.join(f'{one:.12g}' for one in sorted(set(before)))}"
    return [replace(change, exact=True, new=others[0], status=WORSE, reason=reason)]


def _one(group: Group, key: Key, kind: MeasureKind, policy: Policy) -> MeasureChange | _Asked:
    before, after = _values(group.base, key), _values(group.new, key)
    change = _change(group, key, kind, [value for _, value in before], [value for _, value in after])
    confirm = _values(group.confirm, key)
    if group.paired:
        return _paired(group, change, (before, after, confirm), policy)
    number = min(len(before), len(after))
    if number < policy.repeats:
        reason = f"{count(number, 'repeat')} cannot show it, {policy.repeats} of each are needed"
        return replace(change, status=UNDECIDED, reason=reason)
    if policy.interleaved and not by_turns(group.base, group.new):
        reason = "base and new were not run by turns: a drift of the machine would look the same"
        return replace(change, status=UNDECIDED, reason=reason)
    base = tuple(value for _, value in before)
    return _Asked(
        change=change,
        base=base,
        new=tuple(value for _, value in after),
        confirm=tuple(value - change.base for _, value in confirm),
    )


def _paired(
    group: Group, change: MeasureChange, sides: tuple[list[tuple[str, float]], ...], policy: Policy
) -> MeasureChange | _Asked:
    """Compare each node with itself."""
    before, after, confirm = map(_by_node, sides)
    pairs = {node: after[node] - before[node] for node in before if node in after}
    rolled = tuple(value for node, value in pairs.items() if node not in group.control)
    control = tuple(value for node, value in pairs.items() if node in group.control)
    change = replace(change, base_repeats=len(rolled), new_repeats=len(rolled))
    if len(rolled) < policy.repeats:
        reason = f"{count(len(rolled), 'node')} cannot show it, {policy.repeats} are needed before and after"
        return replace(change, status=UNDECIDED, reason=reason)
    if group.control and len(control) < MIN_CONTROLS:
        reason = f"{count(len(control), 'node')} cannot serve as control, {MIN_CONTROLS} are needed"
        return replace(change, status=UNDECIDED, reason=reason)
    away = median(control) if control else 0.0
    again = tuple(
        confirm[node] - before[node] - away for node in confirm if node in before and node not in group.control
    )
    return _Asked(change=change, base=control, new=rolled, confirm=again)


def _by_node(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for node, value in values:
        found.setdefault(node, []).append(value)
    return {node: median(each) for node, each in found.items()}


def by_turns(base: Sequence[Observed], new: Sequence[Observed]) -> bool:
    """Say whether the sides changed often enough in time: as often as half of the smaller one has runs.

    Moments that are not known are no turns.
    """
    if not all(one.started_at for one in (*base, *new)):
        return False
    order = sorted([(one.started_at, 0) for one in base] + [(one.started_at, 1) for one in new])
    turns = sum(first[1] != second[1] for first, second in pairwise(order))
    return turns >= max(2, min(len(base), len(new)) // 2)


def _tested(asked: Sequence[_Asked]) -> list[MeasureChange]:
    worse = [statistics.beyond(one.base, one.new, _sign(one.change) * one.change.smallest) for one in asked]
    better = [statistics.beyond(one.base, one.new, -_sign(one.change) * one.change.smallest) for one in asked]
    sure_worse, sure_better = false_discovery(worse), false_discovery(better)
    return [
        _answer(one, bad <= FALSE_DISCOVERIES, good <= FALSE_DISCOVERIES)
        for one, bad, good in zip(asked, sure_worse, sure_better, strict=True)
    ]


def _sign(change: MeasureChange) -> float:
    """Which way is worse."""
    return 1.0 if change.better is Better.LESS else -1.0


def _answer(one: _Asked, worse: bool, better: bool) -> MeasureChange:
    change = replace(one.change, shift=_round(statistics.shift(one.base, one.new)))
    if not worse and not better:
        return change
    low, high = map(_round, statistics.interval(one.base, one.new))
    change = replace(change, low=low, high=high)
    sign = _sign(change) if worse else -_sign(change)
    if min(sign * low, sign * high) <= change.smallest:
        return change
    if better:
        return replace(change, status=values.BETTER)
    if not one.confirm:
        return replace(change, status=SUSPECT, reason="to be confirmed by one more repeat of new (--confirm)")
    again = sign * median(one.confirm) > change.smallest
    if again:
        return replace(change, status=WORSE, reason="confirmed")
    return replace(change, reason="did not come again in the confirming repeat")


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def by_measure(changes: Iterable[MeasureChange]) -> Mapping[str, list[MeasureChange]]:
    """Return the changes by their status."""
    found: dict[str, list[MeasureChange]] = {}
    for one in changes:
        found.setdefault(one.status, []).append(one)
    return found
