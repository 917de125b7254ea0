"""The regression gate: what became worse, what can no longer be seen, what became better, between two groups of runs.

Pure. First it is asked whether the groups can be compared at all. Verdicts need no statistics: one that failed in
both is known, not new; one that passed or failed and is now skipped or gone is worse, also one that failed: what is no
longer judged is a blind spot. Of several repeats one failure is a failure; what is undecided, gone or not seen counts
where all repeats say so, or half of them and too many more than before for chance. Source: docs/gate.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase

from toolkit.fleet.measures import Group, KindOf, compare_measures
from toolkit.fleet.observed import Found, Observed, ObservedScenario, new_spots, steady
from toolkit.fleet.policy import Policy, WaiversInUse
from toolkit.fleet.values import (
    CONTROL,
    GONE,
    NEW,
    SCENARIO,
    SPOT,
    SUSPECT,
    UNDECIDED,
    WORSE,
    Comparison,
    EnvironmentChange,
    MeasureChange,
    VerdictChange,
)
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.serde import to_data
from toolkit.model.verdict import Outcome
from toolkit.text.wording import first_of

SEVERITY = {Outcome.PASSED: 0, Outcome.SKIPPED: 1, Outcome.UNDECIDED: 2, Outcome.FAILED: 3}
_NODE = ("reserved_cpus", "strict_reservation", "policy", "noise_budget_ns_per_s", "transition_limit_ms")
_PROMISES = (
    *("cpus", "isolation", "mems", "quota_us", "period_us", "burst_us", "weight", "shares", "memory_bytes"),
    *("hugepages", "alignments", "max_numa_nodes", "devices"),
)
MAX_PROMISES = 10
"""Promises that are named one by one."""
MAX_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is compared, and how.

    :param confirm: runs of NEW once more. :param control: patterns of nodes that were not rolled out.
    :param kind_of: what a measure of a rule is. :param at: now; which waivers hold.
    :param across: scenarios that differ are compared with each other, of runs of one scenario each.
    """

    base: Sequence[Observed]
    new: Sequence[Observed]
    kind_of: KindOf
    at: datetime
    confirm: Sequence[Observed] = ()
    control: Sequence[str] = ()
    policy: Policy = field(default_factory=Policy)
    require_passed: bool = False
    across: bool = False


@dataclass(slots=True, kw_only=True)
class _Changes:
    """What was found, on its way into a comparison."""

    regressions: list[VerdictChange] = field(default_factory=list)
    improvements: list[VerdictChange] = field(default_factory=list)
    others: list[VerdictChange] = field(default_factory=list)
    spots: list[VerdictChange] = field(default_factory=list)
    unchanged: int = 0


def compare(asked: Asked) -> Comparison:
    """Compare two groups of runs; ``outcome`` is the gate's answer."""
    reasons = differences(asked)
    asked = _one_name(asked)
    groups = _groups(asked)
    changes = _Changes()
    for group in groups:
        _compare_verdicts(group, changes)
    measures = compare_measures(_measure_groups(asked, groups), asked.policy, asked.kind_of)
    waivers = _Waivers(asked)
    hardware = {one.node: one.hardware.name for one in (*asked.base, *asked.new) if one.hardware is not None}
    regressions, waived = waivers.parted(changes.regressions, hardware)
    spots, waived_spots = waivers.parted(changes.spots, hardware)
    required, _ = waivers.parted(_not_passed(asked) if asked.require_passed else [], hardware)
    measures = waivers.measures(measures)
    worse = [one for one in measures if one.status == WORSE and not one.waived]
    regressed = bool(regressions or spots or worse)
    return Comparison(
        regressed=regressed,
        outcome=_outcome(regressed or bool(required), measures, asked.policy),
        environment=(*reasons, *_environment(asked), *_promises(asked)),
        regressions=tuple(regressions),
        new_blind_spots=tuple(_spot_text(one) for one in spots),
        improvements=tuple(changes.improvements),
        other_changes=tuple(changes.others),
        unchanged=changes.unchanged,
        base_runs=len(asked.base),
        new_runs=len(asked.new),
        measures=measures,
        required=tuple(required),
        waived=(*waived, *waived_spots),
        waivers=waivers.states(),
        scenarios={group.name: tuple(sorted(_names(group.new))) for group in groups},
    )


def _outcome(failed: bool, measures: Iterable[MeasureChange], policy: Policy) -> Outcome:
    open_ = {SUSPECT, UNDECIDED} if policy.measures == "required" else {SUSPECT}
    if failed:
        return Outcome.FAILED
    return Outcome.UNDECIDED if any(one.status in open_ and not one.waived for one in measures) else Outcome.PASSED


def _spot_text(change: VerdictChange) -> str:
    return f"{change.node}: {change.subject}" if change.node else change.subject


# ---------------------------------------------------------------- what can be compared


def _one_name(asked: Asked) -> Asked:
    """Runs of one scenario each, some without its name (a result.json alone), are of one scenario."""
    every = (*asked.base, *asked.new, *asked.confirm)
    if any(len(one.scenarios) != 1 for one in every):
        return asked
    names = {one.scenarios[0].name for one in every}
    if len(names) != 2 or ("" not in names and not asked.across):
        return asked
    name = max(names - {""})

    def named(runs: Sequence[Observed]) -> list[Observed]:
        return [replace(one, scenarios=(replace(one.scenarios[0], name=name),)) for one in runs]

    return replace(asked, base=named(asked.base), new=named(asked.new), confirm=named(asked.confirm))


def differences(asked: Asked) -> tuple[EnvironmentChange, ...]:
    """Return why the two cannot be compared: other scenarios, promises, or machines. What is not known is no reason."""
    found: list[EnvironmentChange] = []
    asked = _one_name(replace(asked, across=False))
    before, after = _names(asked.base), _names(asked.new)
    if not before & after:
        found.append(EnvironmentChange(name="scenarios", before=_listed(before), after=_listed(after)))
    others = [name for name in sorted(before & after) if _promised(asked.base, name, asked.new)]
    if others:
        found.append(EnvironmentChange(name="promises", before=_listed(others), after="differ"))
    for group in _groups(asked):
        for name, old, now in _hardware(group.base, group.new):
            row = EnvironmentChange(name=name, before=old, after=now)
            if row not in found:
                found.append(row)
    return tuple(found)


def _names(runs: Iterable[Observed]) -> set[str]:
    return {scenario.name for one in runs for scenario in one.scenarios}


def _promised(base: Iterable[Observed], name: str, new: Iterable[Observed]) -> bool:
    """Say whether a scenario promises something else. (Runs without a scenario: their promises are named, no more.)"""

    def hashes(runs: Iterable[Observed]) -> set[str]:
        here = (one.scenario(name) for one in runs)
        return {one.promises for one in here if one is not None and one.promises}

    before, after = hashes(base), hashes(new)
    return bool(before and after and before != after)


def _hardware(base: Iterable[Observed], new: Iterable[Observed]) -> Iterator[tuple[str, str, str]]:
    before = {one.hardware.hash: one.hardware.name for one in base if one.hardware is not None}
    after = {one.hardware.hash: one.hardware.name for one in new if one.hardware is not None}
    if before and after:
        if set(before) != set(after):
            yield "hardware class", *_told(before, after)
        return
    old, now = ({one.cpus for one in side if one.cpus is not None} for side in (base, new))
    if old and now and old != now:
        yield "CPUs online", _listed(map(str, sorted(old))), _listed(map(str, sorted(now)))


def _told(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, str]:
    """Name classes; with their hashes where two of one name differ."""
    if set(before.values()) == set(after.values()):
        return _listed(f"{n} ({h})" for h, n in before.items()), _listed(f"{n} ({h})" for h, n in after.items())
    return _listed(before.values()), _listed(after.values())


def _listed(names: Iterable[str]) -> str:
    every = sorted({name or "not known" for name in names})
    return first_of(every, MAX_NAMED) or "none"


def _groups(asked: Asked) -> list[Group]:
    """Part the runs into those that are compared with each other: by node, where a node is in both; else all."""
    sides = [_by_node(side) for side in (asked.base, asked.new, asked.confirm)]
    before, after = set(sides[0]), set(sides[1])
    if not before & after or before == after == {""}:
        names = {*before, *after} - {""}
        return [_group(asked, names.pop() if len(names) == 1 else "", (asked.base, asked.new, asked.confirm))]
    return [_group(asked, node, [side.get(node, ()) for side in sides]) for node in sorted(before | after)]


def _by_node(runs: Iterable[Observed]) -> dict[str, list[Observed]]:
    found: dict[str, list[Observed]] = {}
    for one in runs:
        found.setdefault(one.node, []).append(one)
    return found


def _group(asked: Asked, name: str, sides: Sequence[Sequence[Observed]]) -> Group:
    base, new, confirm = map(tuple, sides)
    return Group(
        name=name,
        base=base,
        new=new,
        confirm=confirm,
        control=frozenset({name} if any(fnmatchcase(name, one) for one in asked.control) else ()),
        hardware=next((one.hardware.name for one in (*new, *base) if one.hardware is not None), ""),
    )


def _measure_groups(asked: Asked, groups: Sequence[Group]) -> list[Group]:
    """One node is compared with itself; of several, a group of each hardware class."""
    both = [group for group in groups if group.base and group.new]
    if len(both) < 2:
        return both
    found: dict[str, list[Group]] = {}
    for group in both:
        first = group.new[0].hardware
        found.setdefault("" if first is None else first.hash, []).append(group)
    return [
        Group(
            name=each[0].hardware or "hardware not known",
            base=tuple(one for group in each for one in group.base),
            new=tuple(one for group in each for one in group.new),
            confirm=tuple(one for group in each for one in group.confirm),
            control=frozenset(group.name for group in each if group.control),
            paired=True,
            hardware=each[0].hardware,
        )
        for each in found.values()
    ]


# ---------------------------------------------------------------- verdicts


def _compare_verdicts(group: Group, into: _Changes) -> None:
    found = _Changes()
    if not group.new:
        found.regressions.append(
            VerdictChange(rule="node", subject=group.name, before="seen", after=GONE, reason="no result of it in NEW")
        )
    for name in sorted(_names(group.base) | _names(group.new)) if group.new else ():
        _compare_scenario(group, name, found)
    for text, note in (new_spots(group.base, group.new) if group.base and group.new else {}).items():
        found.spots.append(VerdictChange(rule=SPOT, subject=text, before="", after=NEW, reason=note))
    for name in ("regressions", "improvements", "others", "spots"):
        setattr(found, name, [replace(one, node=group.name) for one in getattr(found, name)])
    if group.control:
        # A node that was not rolled out says what changed without the rollout.
        found.others += [
            replace(one, reason=f"not rolled out: {one.reason}") for one in (*found.regressions, *found.spots)
        ]
        found.regressions, found.spots = [], []
    for name in ("regressions", "improvements", "others", "spots"):
        getattr(into, name).extend(getattr(found, name))
    into.unchanged += found.unchanged


def _compare_scenario(group: Group, name: str, into: _Changes) -> None:
    before = [found for one in group.base if (found := one.scenario(name)) is not None]
    after = [found for one in group.new if (found := one.scenario(name)) is not None]
    if 2 * len(before) >= len(group.base) and 2 * len(after) <= len(group.new) and before:
        cut = "" if all(one.complete for one in group.new) else "; a session of NEW was cut short"
        where = f"in {len(after)} of {len(group.new)} repeats" if len(group.new) > 1 else "it was not run"
        reason = f"{where}{cut}"
        into.regressions.append(
            VerdictChange(rule=SCENARIO, subject=name, before="run", after=GONE, reason=reason, scenario=name)
        )
        if not after:
            return
    made = _Changes()
    _by_key(before, after, made)
    _by_count(before, after, made)
    _controls(before, after, made)
    for kind in ("regressions", "improvements", "others"):
        getattr(into, kind).extend(replace(one, scenario=name) for one in getattr(made, kind))
    into.unchanged += made.unchanged


def _by_key(before: Sequence[ObservedScenario], after: Sequence[ObservedScenario], into: _Changes) -> None:
    every = (*before, *after)
    # An index does not say which passed and which were skipped: those are counted.
    bad = tuple(Outcome) if all(one.named for one in every) else (Outcome.FAILED, Outcome.UNDECIDED)
    keys = sorted({key for one in every for key, found in one.verdicts.items() if found[0] in bad})
    for rule, subject in keys:
        change = VerdictChange(rule=rule, subject=subject, before="", after="", reason="")
        found = [[one.found(rule, subject) for one in side] for side in (before, after)]
        _sort(change, found[0], found[1], into)


def _by_count(before: Sequence[ObservedScenario], after: Sequence[ObservedScenario], into: _Changes) -> None:
    """What is only counted: verdicts that are gone have no name there."""
    every = (*before, *after)
    rules = {rule for one in every for rule in one.passed}
    if not all(one.named for one in every):
        rules |= {rule for one in every for rule, _ in one.verdicts}
    for rule in sorted(rules) if before and after else ():
        old, now = sorted(one.count(rule) for one in before), sorted(one.count(rule) for one in after)
        least, most = old[(len(old) - 1) // 2], now[len(now) // 2]
        if most < least:
            change = VerdictChange(
                rule=rule,
                subject=f"{least - most} of {least} verdicts",
                before=str(Outcome.PASSED),
                after=GONE,
                reason="they are gone, or skipped now",
            )
            into.regressions.append(change)
        else:
            into.unchanged += min(one.passing(rule) for one in every)


def _controls(before: Sequence[ObservedScenario], after: Sequence[ObservedScenario], into: _Changes) -> None:
    """A promise that is broken on purpose and no longer noticed."""
    for name in sorted({name for one in (*before, *after) for name in one.controls}):
        change = VerdictChange(rule=CONTROL, subject=name, before="", after="", reason="")
        found = [[one.controls.get(name) for one in side] for side in (before, after)]
        _sort(change, found[0], found[1], into)


@dataclass(frozen=True, slots=True)
class _Settled:
    """What several repeats come to. :param minority: what fewer than half of them say besides."""

    outcome: Outcome | None
    reason: str = ""
    minority: str = ""


def _settled(found: Sequence[Found | None]) -> _Settled:
    """One failure is a failure; anything else but passed counts where at least half of the repeats say so."""
    failed = [one for one in found if one is not None and one[0] is Outcome.FAILED]
    repeats = f" ({len(failed)} of {len(found)} repeats)" if len(found) > 1 else ""
    if failed:
        return _Settled(Outcome.FAILED, failed[-1][1] + repeats)
    others = [one for one in found if one is None or one[0] is not Outcome.PASSED]
    if not found or 2 * len(others) >= len(found):
        kinds = Counter(None if one is None else one[0] for one in others)
        most = kinds.most_common(1)[0][0] if kinds else None
        reasons = [one[1] for one in others if one is not None and one[0] is most]
        repeats = f" ({kinds[most]} of {len(found)} repeats)" if len(found) > 1 else ""
        return _Settled(most, (reasons[-1] if reasons else "") + repeats)
    passed = next((one[1] for one in reversed(found) if one is not None and one[0] is Outcome.PASSED), "")
    undecided = sum(one is not None and one[0] is Outcome.UNDECIDED for one in others)
    return _Settled(Outcome.PASSED, passed, f"undecided in {undecided} of {len(found)} repeats" if undecided else "")


def _by_chance(before: Sequence[Found | None], after: Sequence[Found | None]) -> bool:
    """Say whether what did not pass in some repeats of NEW may be so by chance."""
    bad, worse = (sum(one is None or one[0] is not Outcome.PASSED for one in side) for side in (before, after))
    return not steady((bad, len(before)), (worse, len(after)))


def _sort(change: VerdictChange, before: Sequence[Found | None], after: Sequence[Found | None], into: _Changes) -> None:
    old, now = _settled(before), _settled(after)
    change = replace(
        change,
        before=NEW if old.outcome is None else str(old.outcome),
        after=GONE if now.outcome is None else str(now.outcome),
        reason=old.reason if now.outcome is None else now.reason,
    )
    if old.outcome is now.outcome:
        if old.outcome is not None:
            into.unchanged += 1
        if now.minority and not old.minority:
            into.others.append(replace(change, reason=now.minority))
    elif _worse(old.outcome, now.outcome):
        chance = now.outcome is not Outcome.FAILED and _by_chance(before, after)
        (into.others if chance else into.regressions).append(change)
    elif _better(old.outcome, now.outcome):
        into.improvements.append(change)
    else:
        into.others.append(change)


def _worse(old: Outcome | None, now: Outcome | None) -> bool:
    if old is None:
        return now in (Outcome.FAILED, Outcome.UNDECIDED)
    if now is None:
        return old is not Outcome.SKIPPED
    if old is Outcome.SKIPPED:
        return now in (Outcome.FAILED, Outcome.UNDECIDED)
    if now is Outcome.SKIPPED:
        return old in (Outcome.PASSED, Outcome.FAILED)
    return SEVERITY[now] > SEVERITY[old]


def _better(old: Outcome | None, now: Outcome | None) -> bool:
    return old is not None and now is not None and now is not Outcome.SKIPPED and SEVERITY[now] < SEVERITY[old]


def _not_passed(asked: Asked) -> list[VerdictChange]:
    """What did not pass in any repeat of NEW, known before or not."""
    found: dict[tuple[str, str, str, str], VerdictChange] = {}
    for one in asked.new:
        for scenario in one.scenarios:
            controls = {(CONTROL, name): seen for name, seen in scenario.controls.items()}
            for (rule, subject), (outcome, reason) in {**scenario.verdicts, **controls}.items():
                if outcome in (Outcome.FAILED, Outcome.UNDECIDED):
                    found[one.node, scenario.name, rule, subject] = VerdictChange(
                        rule=rule,
                        subject=subject,
                        before="",
                        after=str(outcome),
                        reason=reason,
                        node=one.node,
                        scenario=scenario.name,
                    )
    return list(found.values())


# ---------------------------------------------------------------- waivers


class _Waivers(WaiversInUse):
    """Waivers over the changes of a comparison."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.policy, asked.at)

    def parted(
        self, changes: Iterable[VerdictChange], hardware: Mapping[str, str]
    ) -> tuple[list[VerdictChange], list[VerdictChange]]:
        """Return the findings that count, and those that are waived."""
        counting: list[VerdictChange] = []
        waived: list[VerdictChange] = []
        for one in changes:
            text = self.text(one.rule, one.subject, one.scenario, hardware.get(one.node, ""), one.node)
            (waived if text else counting).append(replace(one, waived=text))
        return counting, waived

    def measures(self, changes: Iterable[MeasureChange]) -> tuple[MeasureChange, ...]:
        """Return measures, those that are waived said to be so."""
        found = []
        for one in changes:
            bad = one.status in (WORSE, SUSPECT)
            node = "" if one.node == one.hardware else one.node
            text = self.text(one.rule, one.subject, one.scenario, one.hardware, node) if bad else ""
            found.append(replace(one, waived=text))
        return tuple(found)


# ---------------------------------------------------------------- what else differs


def _environment(asked: Asked) -> Iterator[EnvironmentChange]:
    nodes = [{one.node for one in side if one.node} for side in (asked.base, asked.new)]
    if all(nodes) and nodes[0] != nodes[1]:
        yield EnvironmentChange(name="node", before=_listed(nodes[0]), after=_listed(nodes[1]))
    sides = (asked.base, asked.new)
    first = {name: None for side in sides for one in side for name in one.facts}
    for name in first:
        if not all(any(name in one.facts for one in side) for side in sides):
            continue
        old, now = ([one.facts.get(name) for one in side] for side in sides)
        if any(value not in old for value in now) or any(value not in now for value in old):
            yield EnvironmentChange(name=name, before=_shorts(old), after=_shorts(now))


def _shorts(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(_short, values)))


def _promises(asked: Asked) -> tuple[EnvironmentChange, ...]:
    """What was promised otherwise: a verdict that passes where less was promised is not better for that.

    Of one run on each side. A pod that comes again has other CPUs: this is reported, and is no regression.
    """
    before, after = (side[0].claims if len(side) == 1 else None for side in (asked.base, asked.new))
    if before is None or after is None:
        return ()
    rows = [
        EnvironmentChange(
            name=f"{where}{name}".replace("_", " "), before=_promise(old[name]), after=_promise(now[name])
        )
        for where, old, now in _promised_in_both(before, after)
        for name in old
        if old[name] != now[name]
    ]
    if len(rows) > MAX_PROMISES:
        more = str(len(rows) - MAX_PROMISES + 1)
        rows[MAX_PROMISES - 1 :] = [EnvironmentChange(name="more promises", before=more, after="differ")]
    return tuple(rows)


def _promised_in_both(
    before: ClaimSet, after: ClaimSet
) -> Iterator[tuple[str, Mapping[str, object], Mapping[str, object]]]:
    yield "", _fields(before, _NODE), _fields(after, _NODE)
    old = {claim.name: claim for claim in before.claims}
    for claim in after.claims:
        if claim.name in old:
            yield f"{claim.name}: ", _fields(old[claim.name], _PROMISES), _fields(claim, _PROMISES)


def _fields(of: Claim | ClaimSet, names: tuple[str, ...]) -> dict[str, object]:
    data = to_data(of)
    assert isinstance(data, dict)
    return {name: data[name] for name in names}


def _promise(value: object) -> str:
    if value is None or value == []:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _short(value: object) -> str:
    if value is None:
        return "not known"
    text = "differs" if isinstance(value, dict) else str(value)
    return text if len(text) <= 200 else text[:197] + "..."
