"""What a gate reads of one saved run or session: one repetition, whatever it was saved as. Pure.

A session's index names the verdicts that did not pass and counts those that did; a run, and a session whose runs were
judged again, name them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from toolkit.fleet.exact import fisher
from toolkit.model.blind_spots import kind_of_spot
from toolkit.model.claims import ClaimSet
from toolkit.model.conformance import ScenarioResult
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Coverage, Environment
from toolkit.model.identity import HardwareClass, Identity
from toolkit.model.result import Result
from toolkit.model.serde import to_data
from toolkit.model.session import Session, SessionScenario
from toolkit.model.verdict import Outcome, Verdict, rank

Found = tuple[Outcome, str]
"""An outcome with its reason."""
_OF_ONE_RUN = ("node", "machine", "boot_id", "session", "job", "hardware")
"""Parts of an identity that are compared by themselves, or differ in every run."""
HEALTH = "evidence-health"
CHANCE = 0.01
"""As often is said of equal sides that a blind spot or a doubt is more frequent in the one."""
UNSEEN, UNSAMPLED = "CPUs {} were not seen", "CPUs {} are no longer sampled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedScenario:
    """One scenario of it.

    :param verdicts: (rule, subject) -> outcome, of those that are known by name.
    :param passed: rule -> how many passed that ``verdicts`` does not name.
    :param named: ``verdicts`` names all that have evidence, also those that passed or were skipped.
    :param measures: ``rule subject`` -> name -> value, of those that gates compare.
    :param promises: hash of what was asked for and promised; empty: not known.
    """

    name: str
    promises: str = ""
    verdicts: Mapping[tuple[str, str], Found] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)
    named: bool = True
    controls: Mapping[str, Found] = field(default_factory=dict)
    measures: Mapping[str, Mapping[str, int | float]] = field(default_factory=dict)

    def found(self, rule: str, subject: str) -> Found | None:
        """Return the outcome of a verdict; ``None``: there is none. Of what an index counts: passed, if any did."""
        known = self.verdicts.get((rule, subject))
        if known is None and self.passed.get(rule):
            return Outcome.PASSED, ""
        return known

    def count(self, rule: str) -> int:
        """Return how many verdicts of a rule there are, without those that were skipped."""
        named = sum(key[0] == rule and found[0] is not Outcome.SKIPPED for key, found in self.verdicts.items())
        return named + self.passed.get(rule, 0)

    def passing(self, rule: str) -> int:
        """Return how many verdicts of a rule passed."""
        named = sum(key[0] == rule and found[0] is Outcome.PASSED for key, found in self.verdicts.items())
        return named + self.passed.get(rule, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One saved run or session.

    :param node: whose it is; empty: not known. :param started_at: ISO 8601; orders the repeats.
    :param cpus: how many were online; ``None``: not known. :param facts: about the machine and its software, by name.
    :param blind_spots: kind -> its text. :param claims: what was promised in a single run, if known.
    """

    path: str
    node: str = ""
    started_at: str = ""
    hardware: HardwareClass | None = None
    cpus: int | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    scenarios: tuple[ObservedScenario, ...] = ()
    blind_spots: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    claims: ClaimSet | None = None

    def scenario(self, name: str) -> ObservedScenario | None:
        """Return its scenario of that name."""
        return next((one for one in self.scenarios if one.name == name), None)


def of_result(
    result: Result,
    measures: Mapping[str, Mapping[str, int | float]],
    *,
    path: str = "",
    scenario: str = "",
    claims: ClaimSet | None = None,
    promises: str = "",
) -> Observed:
    """Return what a gate reads of a run. :param measures: those of its verdicts that gates compare."""
    identity = result.environment.identity or Identity()
    return Observed(
        path=path,
        node=identity.node,
        started_at=result.started_at,
        hardware=identity.hardware,
        cpus=len(result.environment.cpus_online),
        facts=_facts(result.environment),
        scenarios=(
            ObservedScenario(name=scenario, promises=promises, verdicts=_named(result.verdicts), measures=measures),
        ),
        blind_spots=_spots(result.coverage),
        claims=claims,
    )


Judged = Mapping[str, tuple[ScenarioResult, Mapping[str, Mapping[str, int | float]]]]
"""Scenario -> what its runs give when they are judged again, with the measures of its verdicts that gates compare."""


def of_session(session: Session, *, path: str = "", judged: Judged | None = None) -> Observed:
    """Return what a gate reads of a session. :param judged: ``None``: the saved index is taken as it is."""
    scenarios = [_indexed(one) if judged is None else _judged(one, *judged[one.name]) for one in session.scenarios]
    spots = {kind: kind for kind in session.blind_spots}
    if judged is not None:
        texts = [spot for result, _ in judged.values() for spot in result.blind_spots]
        spots = {kind_of_spot(text): text for text in texts}
    known: dict[str, object] = {"kernel": session.kernel, "pinproof": session.pinproof}
    return Observed(
        path=path,
        node=session.identity.node,
        started_at=session.started_at,
        hardware=session.identity.hardware,
        facts={**known, **_identity_facts(session.identity)},
        scenarios=tuple(scenarios),
        blind_spots=spots,
        complete=session.complete,
    )


def _indexed(scenario: SessionScenario) -> ObservedScenario:
    return ObservedScenario(
        name=scenario.name,
        promises=scenario.promises,
        verdicts=_others(scenario),
        passed=scenario.passed,
        named=False,
        controls={one.name: (one.outcome, one.reason) for one in scenario.controls},
        measures=scenario.measures,
    )


def _others(scenario: SessionScenario) -> dict[tuple[str, str], Found]:
    found = {(one.rule, one.subject): (one.outcome, one.reason) for one in scenario.others}
    if scenario.outcome in (Outcome.FAILED, Outcome.UNDECIDED) and not found and not scenario.passed:
        found[HEALTH, "run"] = (scenario.outcome, scenario.reason)  # it could not be run
    return found


def _judged(
    index: SessionScenario, result: ScenarioResult, measures: Mapping[str, Mapping[str, int | float]]
) -> ObservedScenario:
    named = _named(result.verdicts)
    # What the plan says before anything runs has no evidence: its word is the index's.
    rules = {rule for rule, _ in named}
    planned = {key: found for key, found in _others(index).items() if key[0] not in rules}
    if not named and not planned:
        planned = {(HEALTH, "run"): (result.outcome, result.reason)}
    # The index names controls by the promise that was broken.
    names = [one.name for one in index.controls]
    return ObservedScenario(
        name=result.name,
        promises=index.promises,
        verdicts=named | planned,
        passed={rule: number for rule, number in index.passed.items() if rule not in rules},
        controls={name: (one.outcome, one.reason) for name, one in zip(names, result.controls, strict=True)},
        measures=measures,
    )


def _named(verdicts: Iterable[Verdict]) -> dict[tuple[str, str], Found]:
    """Verdicts by rule and subject; of several with one key the worst counts, and skipped least."""
    found: dict[tuple[str, str], Found] = {}
    for verdict in verdicts:
        key = (verdict.rule, verdict.subject)
        if key not in found or rank(verdict.outcome) < rank(found[key][0]):
            found[key] = (verdict.outcome, verdict.reason)
    return found


def _facts(environment: Environment) -> dict[str, object]:
    data = to_data(environment)
    assert isinstance(data, dict)
    own = {one.name: data[one.name] for one in fields(environment) if one.name != "identity"}
    return {**own, **_identity_facts(environment.identity or Identity())}


def _identity_facts(identity: Identity) -> dict[str, object]:
    data = to_data(identity)
    assert isinstance(data, dict)
    return {name: value for name, value in data.items() if name not in _OF_ONE_RUN}


def _spots(coverage: Coverage) -> dict[str, str]:
    """Return what a run did not see: kind -> text; without the rules that it weakens, where that is known."""
    texts = tuple(spot.text for spot in coverage.blindness) or coverage.blind_spots
    found = {kind_of_spot(text): text for text in texts}
    for name in ("lost_events", "map_full", "missed_runs"):
        if getattr(coverage, name) > 0:
            found[name] = f"{name} 0 -> {getattr(coverage, name)}"
    for cpu in coverage.cpus_online - coverage.cpus_seen:
        found[f"{UNSEEN} {cpu}"] = UNSEEN
    for cpu in coverage.cpus_unsampled:
        found[f"{UNSAMPLED} {cpu}"] = UNSAMPLED
    for name in ("sampler_hz", "proc_scans", "switches_judged"):
        if getattr(coverage, name) == 0:
            found[f"no {name}"] = f"{name} -> 0"
    if coverage.positive_control_latency_ms is None:
        found["no positive control"] = "the positive control was no longer seen"
    return found


def steady(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Say whether what some repeats of NEW have is more than chance: all have it, or half and more, and so many more
    than before that Fisher's exact test says so.

    :param before, after: how many of how many have it.
    """
    (had, runs), (has, repeats) = before, after
    if has == repeats:
        return True
    more = has * runs > had * repeats and 2 * has >= repeats
    return more and fisher(has, repeats - has, had, runs - had) <= CHANCE


def new_spots(base: Iterable[Observed], new: Iterable[Observed]) -> dict[str, str]:
    """Return the blind spots of ``new`` that fewer than half of ``base`` have: their text -> in how many."""
    before, after = list(base), list(new)
    seen = Counter(kind for one in after for kind in one.blind_spots)
    known = Counter(kind for one in before for kind in one.blind_spots)
    texts = {kind: text for one in after for kind, text in one.blind_spots.items()}
    found: dict[str, str] = {}
    cpus: dict[str, list[int]] = {}
    for kind, number in seen.items():
        if 2 * known[kind] >= max(1, len(before)) or not steady((known[kind], len(before)), (number, len(after))):
            continue
        text = texts[kind]
        if text in (UNSEEN, UNSAMPLED):
            cpus.setdefault(text, []).append(int(kind.rpartition(" ")[2]))
        else:
            found[text] = f"in {number} of {len(after)} repeats"
    return found | {text.format(CpuSet.of(numbers)): "" for text, numbers in cpus.items()}
