"""The properties that hold for every rule together, on generated evidence."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.validators.evidence_builder import (
    bandwidth,
    claim_set,
    evidence,
    mask,
    use,
)
from tests.unit.validators.trust_builder import CLAIMS, LOSSES, by_key, healthy
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.serde import from_json, to_json
from toolkit.model.verdict import Outcome
from validators.credibility.agreement import disagreements
from validators.credibility.contradictions import contradictions
from validators.registry import judge

BRIEF = settings(deadline=None, max_examples=50)
counts = st.integers(0, 1000)
names = st.sampled_from(["db", "web", "ghost"])


some_rows = st.lists(
    st.builds(
        use,
        names,
        st.integers(0, 3),
        switches=counts,
        run_ns=counts.map(lambda n: n * 1_000_000),
        samples=counts,
        out_of_set_switches=st.sampled_from([0, 0, 0, 1]),
        out_of_set_ns=st.sampled_from([0, 0, 0, 1]),
        transition_switches=st.sampled_from([0, 0, 1]),
        transition_ns=st.sampled_from([0, 0, 1]),
    ),
    max_size=6,
    unique_by=lambda row: (row.claim, row.cpu),
)
some_levels = st.lists(
    st.builds(
        bandwidth,
        st.sampled_from(["db", "web"]),
        st.sampled_from(["/kubepods/poda/db", "/kubepods"]),
        st.integers(0, 2),
        usage_ns=st.none() | counts.map(lambda n: n * 1_000_000),
        nr_periods=st.none() | counts,
        nr_throttled=st.none() | counts,
        quota_us=st.sampled_from([None, -1, 50_000, 100_000]),
        bpf_usage_ns=st.none() | counts.map(lambda n: n * 1_000_000),
    ),
    max_size=6,
    unique_by=lambda row: (row.claim, row.level),
)
some_masks = st.lists(
    st.builds(mask, names, st.sampled_from(["2-3", "2", "0-3", "0"]), tid=st.integers(1, 9)),
    max_size=4,
    unique=True,
)
some_intruders = st.lists(
    st.builds(
        Intruder,
        cpu=st.integers(0, 3),
        tid=st.integers(1, 9),
        comm=st.just("guest"),
        owner=st.sampled_from(OwnerClass),
        cgroup=st.sampled_from(["/", "/kubepods/podb/web"]),
        switches=counts,
        total_ns=counts,
        longest_ns=counts,
        first_at_ns=counts,
    ),
    max_size=3,
    unique=True,
)


@st.composite
def anything(draw: st.DrawFn) -> Evidence:
    base = draw(st.sampled_from([healthy(), evidence()]))
    keep = draw(st.tuples(*[st.booleans()] * 4))
    return replace(
        base,
        cpu_use=base.cpu_use if keep[0] else tuple(draw(some_rows)),
        bandwidth=base.bandwidth if keep[1] else tuple(draw(some_levels)),
        thread_masks=base.thread_masks if keep[2] else tuple(draw(some_masks)),
        intruders=() if keep[3] else tuple(draw(some_intruders)),
    )


claim_sets = st.sampled_from([CLAIMS, claim_set(), replace(CLAIMS, pods_root=None)])


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
    """Take the sound rows for drawn ones, a witness at a time, until nobody contradicts himself or another.

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
    """The claim's neighbours are the accused of ``exclusive-cpus``: without their rows nobody accuses them."""
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
