"""The properties that hold for every rule together, on generated evidence."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.validators.evidence_strategies import (
    anything,
    claim_sets,
)
from tests.unit.validators.trust_builder import LOSSES, by_key, healthy
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.serde import from_json, to_json
from toolkit.model.verdict import Outcome
from validators.credibility.agreement import disagreements
from validators.credibility.contradictions import contradictions
from validators.registry import judge

BRIEF = settings(deadline=None, max_examples=50)


@BRIEF
@given(claim_sets, anything(), st.sampled_from(LOSSES[:3] + LOSSES[8:9]))
def test_loss_never_helps(claims: ClaimSet, found: Evidence, loss: dict[str, Any]) -> None:
    """Loss leaves every verdict as it is, or turns ``passed`` into ``undecided``; nothing else ever changes."""
    before, after = by_key(judge(claims, found)), by_key(judge(claims, replace(found, **loss)))

    for key, outcome in before.items():
        assert after[key] is outcome or (outcome is Outcome.PASSED and after[key] is Outcome.UNDECIDED)


@BRIEF
@given(claim_sets, anything(), st.sampled_from(["db", "web"]), st.data())
def test_removing_evidence_never_helps(claims: ClaimSet, found: Evidence, name: str, data: st.DataObject) -> None:
    """Take away one witness of one claim as a whole, or a control: no ``failed``-free verdict becomes ``passed``.

    Witnesses that contradict themselves or each other are left out: what removes one of them removes the doubt.
    """
    found = without_contradictions(claims, found)
    kind = data.draw(
        st.sampled_from(["cpu_use", "thread_masks", "bandwidth", "files_before", "files_after", "canaries"])
    )
    if kind in ("cpu_use", "thread_masks", "bandwidth"):
        kept = tuple(row for row in getattr(found, kind) if row.claim != name)
    elif kind == "canaries":
        kept = found.canaries[1:]
    else:
        cgroup = next(claim.cgroup for claim in claims.claims if claim.name == name)
        kept = tuple(entry for entry in getattr(found, kind) if entry.cgroup != cgroup)
    less = replace(found, **{kind: kept})
    before, after = by_key(judge(claims, found)), by_key(judge(claims, less))

    for key, outcome in after.items():
        own = key[1] == name or kind == "canaries"
        if outcome is Outcome.PASSED and own:
            assert before[key] is Outcome.PASSED or _only_accused_by(kind, key[0])


def without_contradictions(claims: ClaimSet, found: Evidence) -> Evidence:
    """Take the sound rows for drawn ones, a witness at a time, until none contradicts itself or another.

    To throw such drawings away would throw nearly all away.
    """
    sound = healthy()
    for kind in ("bandwidth", "cpu_use", "thread_masks", "files_before", "files_after"):
        if not contradictions(found) and not disagreements(claims, found):
            break
        found = replace(found, **{kind: getattr(sound, kind)})
    assert not contradictions(found)
    assert not disagreements(claims, found)
    return found


def _only_accused_by(kind: str, rule: str) -> bool:
    """The claim's neighbours are the accused of ``exclusive-cpus``: without their rows nothing accuses them."""
    return kind == "cpu_use" and rule in ("exclusive-cpus", "evidence-health", "quota-throttling", "affinity-mask")


@BRIEF
@given(claim_sets, anything(), st.integers())
def test_the_order_of_evidence_does_not_matter(claims: ClaimSet, found: Evidence, seed: int) -> None:
    """Shuffled evidence gives the same verdicts, offenders and reasons included."""
    chance = random.Random(seed)

    def shuffled(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(chance.sample(rows, len(rows)))

    names = ("cpu_use", "thread_masks", "bandwidth", "intruders", "canaries", "files_before", "files_after")
    other = replace(found, **{name: shuffled(getattr(found, name)) for name in names})

    assert judge(claims, other) == judge(claims, found)


@BRIEF
@given(claim_sets, anything())
def test_judging_survives_the_file(claims: ClaimSet, found: Evidence) -> None:
    """Evidence that went through JSON gives the very same verdicts."""
    again = from_json(Evidence, to_json(found), "evidence")

    assert judge(from_json(ClaimSet, to_json(claims), "claims"), again) == judge(claims, found)
