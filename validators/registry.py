"""The rules, in the order of reports, and :func:`judge`. An explicit tuple: nothing registers itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from toolkit.errors import InputError
from toolkit.model.claim_changes import in_force
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.measures import Kind, MeasureKind, find
from toolkit.model.verdict import Verdict
from toolkit.timeline.ran import Asked
from validators.queries import timeline
from validators.queries.departed import without_departed
from validators.queries.memo import memo
from validators.rule import Rule
from validators.rules import (
    affinity_mask,
    applied,
    checkpoint,
    cpuset_containment,
    device_numa,
    evidence_health,
    exclusive_cpus,
    hugepages,
    layers_agree,
    llc_alignment,
    mems_containment,
    noise,
    numa_alignment,
    quota_free,
    quota_throttling,
    reserved_cpus,
    smt_alignment,
    socket_alignment,
    transition_window,
    weight_share,
)

RULES: tuple[Rule, ...] = (
    applied.RULE,
    cpuset_containment.RULE,
    affinity_mask.RULE,
    reserved_cpus.RULE,
    exclusive_cpus.RULE,
    smt_alignment.RULE,
    llc_alignment.RULE,
    numa_alignment.RULE,
    socket_alignment.RULE,
    quota_throttling.RULE,
    quota_free.RULE,
    weight_share.RULE,
    mems_containment.RULE,
    hugepages.RULE,
    device_numa.RULE,
    checkpoint.RULE,
    layers_agree.RULE,
    transition_window.RULE,
    noise.RULE,
    evidence_health.RULE,
)


def judge(claims: ClaimSet, evidence: Evidence, rules: Sequence[Rule] = RULES) -> tuple[Verdict, ...]:
    """Return the verdicts of all rules: pure, the same for the same claims and evidence on any machine.

    :param claims: as they were when the window opened.
    """
    return judge_and_ask(claims, evidence, rules)[0]


def judge_and_ask(
    claims: ClaimSet, evidence: Evidence, rules: Sequence[Rule] = RULES
) -> tuple[tuple[Verdict, ...], Asked]:
    """Return the same verdicts, and what ran outside by the timeline: what rests on both need not ask it again."""
    with memo():
        claims = without_departed(in_force(claims, evidence.changed), evidence)
        verdicts = tuple(verdict for rule in rules for verdict in rule(claims, evidence))
        return verdicts, timeline.asked(evidence)


def needed_s(claims: ClaimSet) -> float:
    """Return how many seconds a window must have so that every rule can say ``passed`` of these claims."""
    return max(rule.needs(claims) for rule in RULES)


@lru_cache(maxsize=4096)  # of names that run files may have made up
def measure_of(rule: str, name: str) -> MeasureKind | None:
    """Return what a measure of a rule is, by the rule's own word; ``None``: it declares no such measure."""
    return next((find(one.doc.measures, name) for one in RULES if one.id == rule), None)


def kind_of(rule: str, name: str) -> Kind:
    """Return the kind of a measure; of one that no rule declares nothing is known."""
    found = measure_of(rule, name)
    return Kind.WORD if found is None else found.kind


def rule_named(name: str) -> Rule:
    """Return one rule.

    :raises InputError: there is no such rule; the message lists them.
    """
    for rule in RULES:
        if rule.id == name:
            return rule
    raise InputError(f"rule {name[:60]!r}", "no such rule", f"one of {', '.join(rule.id for rule in RULES)}")
