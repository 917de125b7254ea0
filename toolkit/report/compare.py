"""The regression gate: two results, what became worse, what can no longer be seen, what became better. Pure.

A verdict that was ``failed`` in both is known, not new. A verdict that passed or failed and is now skipped or gone is
worse, also one that failed: what is no longer judged is a blind spot. Environment differences come first, since
they explain the rest. Source: docs/principles.md, "Verdicts".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Literal

from toolkit.model.blind_spots import kind_of_spot
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Coverage
from toolkit.model.result import Result
from toolkit.model.serde import stage_value, to_data
from toolkit.model.verdict import Outcome, Verdict

SEVERITY = {Outcome.PASSED: 0, Outcome.SKIPPED: 1, Outcome.UNDECIDED: 2, Outcome.FAILED: 3}
_NODE = ("reserved_cpus", "strict_reservation", "policy", "noise_budget_ns_per_s", "transition_limit_ms")
_PROMISES = (
    *("cpus", "isolation", "mems", "quota_us", "period_us", "burst_us", "weight", "shares", "memory_bytes"),
    *("hugepages", "alignments", "max_numa_nodes", "devices"),
)
MAX_PROMISES = 10
"""Promises that are named one by one."""
GONE = "gone"
NEW = "new"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChange:
    """One verdict that differs. ``before`` may be ``new``, ``after`` may be ``gone``."""

    rule: str
    subject: str
    before: str
    after: str
    reason: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentChange:
    """One fact about the machine that differs."""

    name: str
    before: str
    after: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What differs between two results."""

    schema: Literal["pinproof.comparison/1"] = "pinproof.comparison/1"
    regressed: bool
    environment: tuple[EnvironmentChange, ...] = ()
    regressions: tuple[VerdictChange, ...] = ()
    new_blind_spots: tuple[str, ...] = ()
    improvements: tuple[VerdictChange, ...] = ()
    other_changes: tuple[VerdictChange, ...] = ()
    unchanged: int = 0


def compare(
    base: Result,
    new: Result,
    *,
    scenarios: tuple[str, str] = ("", ""),
    promises: tuple[ClaimSet | None, ClaimSet | None] = (None, None),
) -> Comparison:
    """Compare two results; ``regressed`` is the gate's answer.

    :param scenarios: their scenarios' names, if known. :param promises: what was promised in each, if known.
    """
    before, after = _by_key(base), _by_key(new)
    regressions: list[VerdictChange] = []
    improvements: list[VerdictChange] = []
    others: list[VerdictChange] = []
    unchanged = 0
    for key in sorted({*before, *after}):
        old, now = before.get(key), after.get(key)
        if old is not None and now is not None and old.outcome is now.outcome:
            unchanged += 1
        elif _worse(old, now):
            regressions.append(_change(key, old, now))
        elif _better(old, now):
            improvements.append(_change(key, old, now))
        else:
            others.append(_change(key, old, now))
    spots = _new_blind_spots(base.coverage, new.coverage)
    return Comparison(
        regressed=bool(regressions or spots),
        environment=(*_scenarios(*scenarios), *_environment(base, new), *_promises(*promises)),
        regressions=tuple(regressions),
        new_blind_spots=spots,
        improvements=tuple(improvements),
        other_changes=tuple(others),
        unchanged=unchanged,
    )


def _by_key(result: Result) -> dict[tuple[str, str], Verdict]:
    """Verdicts by rule and subject; of several with one key the worst counts."""
    found: dict[tuple[str, str], Verdict] = {}
    for verdict in result.verdicts:
        key = (verdict.rule, verdict.subject)
        if key not in found or SEVERITY[verdict.outcome] > SEVERITY[found[key].outcome]:
            found[key] = verdict
    return found


def _worse(old: Verdict | None, now: Verdict | None) -> bool:
    if old is None:
        return now is not None and now.outcome in (Outcome.FAILED, Outcome.UNDECIDED)
    if now is None:
        return old.outcome is not Outcome.SKIPPED
    if old.outcome is Outcome.SKIPPED:
        return now.outcome in (Outcome.FAILED, Outcome.UNDECIDED)
    if now.outcome is Outcome.SKIPPED:
        return old.outcome in (Outcome.PASSED, Outcome.FAILED)
    return SEVERITY[now.outcome] > SEVERITY[old.outcome]


def _better(old: Verdict | None, now: Verdict | None) -> bool:
    return (
        old is not None
        and now is not None
        and now.outcome is not Outcome.SKIPPED
        and SEVERITY[now.outcome] < SEVERITY[old.outcome]
    )


def _change(key: tuple[str, str], old: Verdict | None, now: Verdict | None) -> VerdictChange:
    latest = old if now is None else now
    return VerdictChange(
        rule=key[0],
        subject=key[1],
        before=NEW if old is None else str(old.outcome),
        after=GONE if now is None else str(now.outcome),
        reason="" if latest is None else latest.reason,
    )


def _texts(coverage: Coverage) -> tuple[str, ...]:
    """Return the blind spots without the rules that they weaken; runs from before have nothing else."""
    return tuple(spot.text for spot in coverage.blindness) or coverage.blind_spots


def _new_blind_spots(base: Coverage, new: Coverage) -> tuple[str, ...]:
    known = {kind_of_spot(spot) for spot in _texts(base)}
    spots = [spot for spot in _texts(new) if kind_of_spot(spot) not in known]
    for name in ("lost_events", "map_full", "missed_runs"):
        before, after = getattr(base, name), getattr(new, name)
        if after > 0 and before == 0:
            spots.append(f"{name} {before} -> {after}")
    unseen = new.cpus_online - new.cpus_seen
    if unseen - (base.cpus_online - base.cpus_seen):
        spots.append(f"CPUs {unseen} were not seen")
    unsampled = new.cpus_unsampled - base.cpus_unsampled
    if unsampled:
        spots.append(f"CPUs {unsampled} are no longer sampled")
    spots += [
        f"{name} {getattr(base, name)} -> 0"
        for name in ("sampler_hz", "proc_scans", "switches_judged")
        if getattr(base, name) > 0 and getattr(new, name) == 0
    ]
    if base.positive_control_latency_ms is not None and new.positive_control_latency_ms is None:
        spots.append("the positive control was no longer seen")
    return tuple(spots)


def _scenarios(before: str, after: str) -> tuple[EnvironmentChange, ...]:
    """Two scenarios promise different things: most of what differs is then no news about the machine."""
    if before == after:
        return ()
    return (EnvironmentChange(name="scenario", before=before or "not known", after=after or "not known"),)


def _environment(base: Result, new: Result) -> tuple[EnvironmentChange, ...]:
    old, now = to_data(base.environment), to_data(new.environment)
    assert isinstance(old, dict)
    assert isinstance(now, dict)
    return tuple(
        EnvironmentChange(name=field.name, before=_short(old[field.name]), after=_short(now[field.name]))
        for field in fields(base.environment)
        if old[field.name] != now[field.name]
    )


def _promises(before: ClaimSet | None, after: ClaimSet | None) -> tuple[EnvironmentChange, ...]:
    """What was promised otherwise: a verdict that passes where less was promised is not better for that.

    A pod that comes again has other CPUs: this is reported, and is no regression.
    """
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
