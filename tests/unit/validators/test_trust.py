"""The loss rule, ``evidence-health``, and the properties that hold for every rule together.

Longer than 300 lines: the properties share their generators with the loss rule's table.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.validators.evidence_builder import (
    CLEAN,
    POSITIVE,
    SECOND,
    WINDOW_NS,
    bandwidth,
    claim_set,
    claim_web,
    coverage,
    cpus,
    evidence,
    mask,
    use,
    web_bandwidth,
)
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Canary, Evidence, HotplugEvent, Intruder, OwnerClass
from toolkit.model.serde import from_json, to_json
from toolkit.model.verdict import Outcome, Verdict, worst
from validators import evidence_health
from validators.agreement import disagreements
from validators.contradictions import contradictions
from validators.registry import RULES, judge, rule_named
from validators.witness import Witness

CLAIMS = claim_set(reserved_cpus=cpus("1"), strict_reservation=True)
CLAIMS = replace(CLAIMS, claims=(CLAIMS.claims[0], claim_web(cpus=cpus("0"), demand_cpus=1.0)))


def healthy(**changes: Any) -> Evidence:
    """Evidence for :data:`CLAIMS` that passes every rule."""
    base = evidence()
    web = [replace(entry, cpus=cpus("0"), cpus_effective=cpus("0")) for entry in base.files_before[1:]]
    values: dict[str, Any] = {
        "cpu_use": (use("db", 2), use("db", 3), use("web", 0, run_ns=5_000_000_000, samples=500)),
        "thread_masks": (mask("db", "2-3"), mask("web", "0", tid=200)),
        "files_before": (base.files_before[0], *web),
        "files_after": (base.files_after[0], *web),
    }
    return replace(base, **{**values, **changes})


def by_key(verdicts: tuple[Verdict, ...]) -> dict[tuple[str, str], Outcome]:
    return {(verdict.rule, verdict.subject): verdict.outcome for verdict in verdicts}


def health(**changes: Any) -> Verdict:
    return evidence_health.RULE(CLAIMS, healthy(**changes))[0]


def test_healthy_evidence_passes_every_rule() -> None:
    """All rules pass or are skipped, and each rule said something."""
    verdicts = judge(CLAIMS, healthy())

    assert worst(verdict.outcome for verdict in verdicts) is Outcome.PASSED
    assert {verdict.rule for verdict in verdicts} == {rule.id for rule in RULES}


LOSSES: list[dict[str, Any]] = [
    {"coverage": coverage(lost_events=1)},
    {"coverage": coverage(map_full=1)},
    {"coverage": coverage(missed_runs=1)},
    {"coverage": coverage(cpus_seen=cpus("0-2"))},
    {"coverage": coverage(switches_judged=1_204_000)},
    {"coverage": coverage(switches_judged=1_205_000)},
    {"coverage": coverage(switches_kernel=0)},
    {"coverage": coverage(switches_judged=0)},
    {"canaries": ()},
    {"canaries": (CLEAN,)},
    {"canaries": (POSITIVE,)},
    {"canaries": (replace(POSITIVE, out_of_set_switches=0, out_of_set_ns=0), CLEAN)},
    {"canaries": (replace(POSITIVE, out_of_set_switches=400), CLEAN)},
    {"canaries": (replace(POSITIVE, reported_at_ns=None), CLEAN)},
    {"canaries": (replace(POSITIVE, reported_at_ns=POSITIVE.planted_at_ns + 250_000_001), CLEAN)},
    {"canaries": (POSITIVE, replace(CLEAN, run_ns=0))},
    {"hotplug": (HotplugEvent(cpu=3, online=False, at_ns=5),)},
    {"duration_ns": 0, "bandwidth": (), "cpu_use": ()},
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_each_loss_leaves_nothing_passed_that_rests_on_switches(loss: dict[str, Any]) -> None:
    """Every kind of loss turns each ``passed`` of a switch rule, and the run as a whole, into ``undecided``."""
    verdicts = judge(CLAIMS, healthy(**loss))
    resting = {rule.id for rule in RULES if Witness.SWITCHES in rule.doc.witnesses}

    assert worst(verdict.outcome for verdict in verdicts) is Outcome.UNDECIDED
    assert all(verdict.outcome is not Outcome.PASSED for verdict in verdicts if verdict.rule in resting)


@pytest.mark.parametrize(
    ("judged", "skew", "outcome"),
    [
        (1_000_000, 0, "passed"),
        (999_900, 0, "passed"),
        (999_899, 0, "undecided"),
        (999_899, 1, "passed"),
        (1_000_101, 0, "undecided"),
    ],
)
def test_switch_count_boundary(judged: int, skew: int, outcome: str) -> None:
    """One in ten thousand beyond the read skew, in either direction, is where trust ends."""
    counts = coverage(switches_judged=judged, switches_kernel=1_000_000, switches_skew=skew)

    assert health(coverage=counts).outcome.value == outcome


def test_switches_that_the_kernel_does_not_trace_are_not_missing() -> None:
    """Switches of named threads without a claim count as accounted for; one in ten thousand beyond them does not."""
    counts = coverage(switches_judged=990_000, switches_untraced=9_900, switches_kernel=1_000_000, switches_skew=0)
    fewer = coverage(switches_judged=990_000, switches_untraced=9_899, switches_kernel=1_000_000, switches_skew=0)

    assert health(coverage=counts).outcome is Outcome.PASSED
    assert health(coverage=fewer).outcome is Outcome.UNDECIDED


def test_control_latency_boundary() -> None:
    """A report after exactly the stated latency is in time."""
    late = replace(POSITIVE, reported_at_ns=POSITIVE.planted_at_ns + 250_000_000)

    assert health(canaries=(late, CLEAN)).outcome is Outcome.PASSED


@pytest.mark.parametrize("canary", [{"out_of_set_switches": 1}, {"out_of_set_ns": 1}, {"reported_at_ns": 5}], ids=str)
def test_a_clean_canary_that_was_reported_fails(canary: dict[str, int]) -> None:
    """The negative control: reports about a canary that keeps its claim prove the evidence wrong, so nothing passes."""
    found = healthy(canaries=(POSITIVE, replace(CLEAN, **canary)))  # type: ignore[arg-type]
    outcomes = by_key(judge(CLAIMS, found))

    assert outcomes[("evidence-health", "node")] is Outcome.FAILED
    assert outcomes[("cpuset-containment", "db")] is Outcome.UNDECIDED


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu_use": (use("db", 2, run_ns=WINDOW_NS * 2),)},
        {"cpu_use": (use("db", 2, run_ns=-1),)},
        {"cpu_use": (use("db", 2, switches=1, idle_wakes=2),)},
        {"cpu_use": (use("db", 2, samples=1, out_of_set_samples=2),)},
        {"cpu_use": (use("db", 2, out_of_set_ns=WINDOW_NS),)},
        {"bandwidth": (bandwidth("db", "/x", nr_periods=1, nr_throttled=4),)},
        {"bandwidth": (bandwidth("db", "/x", usage_ns=-5),)},
        {"coverage": coverage(lost_events=-1)},
    ],
    ids=str,
)
def test_impossible_evidence_fails(changes: dict[str, Any]) -> None:
    """Parts greater than their whole, or more CPU time than there was, cannot come from a machine."""
    assert health(**changes).outcome is Outcome.FAILED


def test_one_claims_disagreement_leaves_the_others_alone() -> None:
    """A doubt about one claim's CPU time makes that claim undecided, and the node, but not its neighbour."""
    rows = tuple(row for row in healthy().bandwidth if (row.claim, row.level) != ("web", 0))
    outcomes = by_key(judge(CLAIMS, healthy(bandwidth=(*rows, web_bandwidth(bpf_usage_ns=1)))))

    assert outcomes[("cpuset-containment", "web")] is Outcome.UNDECIDED
    assert outcomes[("cpuset-containment", "db")] is Outcome.PASSED
    assert outcomes[("evidence-health", "node")] is Outcome.UNDECIDED


def test_the_kernel_lets_a_wake_up_pay_for_the_way_out_of_idle() -> None:
    """20 µs more by the cgroup for each wake-up of an idle CPU is no doubt in a guest; more by the ledger is."""
    guest = replace(healthy().environment, virtualization="kvm")
    rows = (use("db", 2, switches=50_000, run_ns=SECOND, idle_wakes=50_000), *healthy().cpu_use[1:])
    outcomes = {}
    for cgroup_ns, ledger_ns, environment in (
        (3 * SECOND, 2 * SECOND, guest),
        (3 * SECOND, 2 * SECOND, healthy().environment),
        (2 * SECOND, 3 * SECOND, guest),
    ):
        first, *others = healthy().bandwidth
        told = (replace(first, usage_ns=cgroup_ns, bpf_usage_ns=ledger_ns), *others)
        verdicts = by_key(judge(CLAIMS, healthy(cpu_use=rows, bandwidth=told, environment=environment)))
        outcomes[(cgroup_ns, environment.virtualization)] = verdicts[("cpuset-containment", "db")]

    assert outcomes == {
        (3 * SECOND, "kvm"): Outcome.PASSED,
        (3 * SECOND, "none"): Outcome.UNDECIDED,
        (2 * SECOND, "kvm"): Outcome.UNDECIDED,
    }


# Properties over arbitrary evidence, most of it neither healthy nor consistent.

BRIEF = settings(deadline=None, max_examples=50)
counts = st.integers(0, 1000)
names = st.sampled_from(["db", "web", "ghost"])


@st.composite
def anything(draw: st.DrawFn) -> Evidence:
    rows = draw(
        st.lists(
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
    )
    levels = draw(
        st.lists(
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
    )
    masks = draw(
        st.lists(
            st.builds(mask, names, st.sampled_from(["2-3", "2", "0-3", "0"]), tid=st.integers(1, 9)),
            max_size=4,
            unique=True,
        )
    )
    guests = draw(
        st.lists(
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
    )
    base = draw(st.sampled_from([healthy(), evidence()]))
    keep = draw(st.tuples(*[st.booleans()] * 4))
    return replace(
        base,
        cpu_use=base.cpu_use if keep[0] else tuple(rows),
        bandwidth=base.bandwidth if keep[1] else tuple(levels),
        thread_masks=base.thread_masks if keep[2] else tuple(masks),
        intruders=() if keep[3] else tuple(guests),
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


def test_every_rule_has_its_page() -> None:
    """Each rule tells claim, way, tolerance, source, negative control and witnesses."""
    for rule in RULES:
        for name in ("claim", "how", "tolerance", "source", "negative_control"):
            assert getattr(rule.doc, name).strip(), (rule.id, name)
        assert rule.doc.witnesses
        assert rule_named(rule.id) is rule


def test_an_unknown_rule_is_an_input_error() -> None:
    """The message lists the rules."""
    with pytest.raises(InputError, match="one of applied, "):
        rule_named("nope")


def test_canary_times_before_planting_are_not_trusted() -> None:
    """A report that precedes the escape is no report of it."""
    odd: Canary = replace(POSITIVE, reported_at_ns=0)

    assert health(canaries=(odd, CLEAN)).outcome is Outcome.UNDECIDED
