"""The loss rule and ``evidence-health``: each loss takes passes away, and what is proved wrong fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import (
    CLEAN,
    POSITIVE,
    SECOND,
    WINDOW_NS,
    bandwidth,
    coverage,
    use,
    web_bandwidth,
)
from tests.unit.validators.trust_builder import CLAIMS, LOSSES, by_key, health, healthy
from toolkit.errors import InputError
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Canary, HotplugEvent
from toolkit.model.evidence.following import LIMITS, Following
from toolkit.model.verdict import Outcome, Verdict, worst
from validators.credibility.agreement import disagreements
from validators.credibility.trust import FOLLOW_GAP_NS, withhold_passes
from validators.registry import RULES, judge, rule_named
from validators.witness import Witness


def test_healthy_evidence_passes_every_rule() -> None:
    """All rules pass or are skipped, and each rule said something."""
    verdicts = judge(CLAIMS, healthy())

    assert worst(verdict.outcome for verdict in verdicts) is Outcome.PASSED
    assert {verdict.rule for verdict in verdicts} == {rule.id for rule in RULES}


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_each_loss_leaves_nothing_passed_that_rests_on_switches(loss: dict[str, Any]) -> None:
    """Every kind of loss turns each ``passed`` of a switch rule, and the run as a whole, into ``undecided``."""
    verdicts = judge(CLAIMS, healthy(**loss))
    resting = {rule.id for rule in RULES if Witness.SWITCHES in rule.doc.witnesses}

    assert worst(verdict.outcome for verdict in verdicts) is Outcome.UNDECIDED
    assert all(verdict.outcome is not Outcome.PASSED for verdict in verdicts if verdict.rule in resting)


@pytest.mark.parametrize(
    "found", [{"readings": 2, "gap_ns": FOLLOW_GAP_NS}, {"readings": 1, "unanswered": 5, "gap_ns": FOLLOW_GAP_NS}]
)
def test_a_source_that_answered_in_time_is_believed(found: dict[str, int]) -> None:
    """Also where it was asked in vain for a while."""
    assert health(following=Following(source="kubelet", **found)).outcome is Outcome.PASSED


def test_a_source_that_did_not_answer_is_named_with_its_reason() -> None:
    """The reason of every verdict that it takes away."""
    missing = ("docker: connection refused", f"{LIMITS}: those of memory are not judged")
    found = Following(source="docker", unanswered=3, gap_ns=1, missing=missing)
    assert "docker did not answer in all of the window (docker: connection refused)" in health(following=found).reason


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


@pytest.mark.parametrize(
    ("cpu", "kernel", "outcome"),
    [
        (0, "6.12.1", Outcome.UNDECIDED),
        (1, "6.12.1", Outcome.FAILED),
        (1, "6.2.0-rc1", Outcome.FAILED),
        (1, "6.1.0-56-amd64", Outcome.UNDECIDED),
        (None, "6.1.0-56-amd64", Outcome.FAILED),
    ],
)
def test_a_clean_canary_whose_cpu_went_offline(cpu: int | None, kernel: str, outcome: Outcome) -> None:
    """The kernel moved it: that it was reported outside proves nothing. Another CPU explains nothing since 6.2."""
    away = replace(CLEAN, out_of_set_switches=40, out_of_set_ns=9_000_000)
    events = () if cpu is None else (HotplugEvent(cpu=cpu, online=False, at_ns=5_000_000_000),)
    found = healthy(canaries=(POSITIVE, away), hotplug=events)
    found = replace(found, environment=replace(found.environment, kernel=kernel))
    assert by_key(judge(CLAIMS, found))[("evidence-health", "node")] is outcome


def test_a_clean_canary_on_a_cpu_that_was_offline_already() -> None:
    """It went just before the window opened, after the canaries had been looked at."""
    found = healthy(
        canaries=(POSITIVE, replace(CLEAN, cpu=7, out_of_set_switches=40)),
        coverage=coverage(cpus_online=CpuSet.parse("0-3")),
    )
    assert by_key(judge(CLAIMS, found))[("evidence-health", "node")] is Outcome.UNDECIDED


@pytest.mark.parametrize("planted", [-1, -1200])
@pytest.mark.parametrize("positive", [True, False])
def test_a_control_that_died(planted: int, positive: bool) -> None:
    """It was seen and reported while it ran: that proves nothing about the rest of the window."""
    canary = replace(POSITIVE if positive else CLEAN, planted_switches=planted)
    found = healthy(canaries=(canary, CLEAN) if positive else (POSITIVE, canary))
    outcomes = by_key(judge(CLAIMS, found))

    assert outcomes[("evidence-health", "node")] is Outcome.UNDECIDED
    assert outcomes[("cpuset-containment", "db")] is Outcome.UNDECIDED


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
        {"cpu_use": (use("db", 2, switches=0, arrival_lag_ns=1),)},
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


def test_a_blind_spot_of_one_claim_is_one_of_what_rests_on_all() -> None:
    """A verdict about the node, or a CPU, counts every claim's tasks; a neighbour's own verdict does not."""
    spot = BlindSpot(text="unseen", witnesses=(Witness.SWITCHES,), claim="web")
    passed = tuple(
        Verdict(rule="x", subject=subject, outcome=Outcome.PASSED, reason="", measures={})
        for subject in ("db", "web", "cpu 3", "node")
    )
    found = withhold_passes(
        passed, frozenset({Witness.SWITCHES}), CLAIMS, healthy(coverage=coverage(blindness=(spot,)))
    )

    assert [verdict.outcome.value for verdict in found] == ["passed", "undecided", "undecided", "undecided"]


def test_a_blind_spot_without_words_is_one() -> None:
    """What was not seen was not seen, whatever a file says of it."""
    spot = BlindSpot(text="", witnesses=(Witness.SWITCHES,))
    passed = (Verdict(rule="x", subject="db", outcome=Outcome.PASSED, reason="", measures={}),)
    (found,) = withhold_passes(
        passed, frozenset({Witness.SWITCHES}), CLAIMS, healthy(coverage=coverage(blindness=(spot,)))
    )

    assert (found.outcome, found.weakened_by) == (Outcome.UNDECIDED, ("",))


def test_the_kernel_lets_a_wake_up_pay_for_the_way_out_of_idle() -> None:
    """20 us more by the cgroup for each wake-up of an idle CPU is no doubt in a guest; more by the ledger is."""
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


@pytest.mark.parametrize(
    ("lag", "cgroup_ns", "outcome"),
    [
        ({"arrival_lag_ns": SECOND // 2}, 3 * SECOND // 2, Outcome.PASSED),
        ({"arrival_lag_ns": SECOND // 4}, 3 * SECOND // 2, Outcome.UNDECIDED),
        ({"arrival_lag_ns": SECOND // 2}, SECOND // 2, Outcome.UNDECIDED),
        ({"departure_lag_ns": SECOND // 2}, SECOND // 2, Outcome.PASSED),
        ({"departure_lag_ns": SECOND // 4}, SECOND // 2, Outcome.UNDECIDED),
        ({"departure_lag_ns": SECOND // 2}, 3 * SECOND // 2, Outcome.UNDECIDED),
    ],
)
def test_a_woken_task_pays_from_its_wake_up_on(lag: dict[str, int], cgroup_ns: int, outcome: Outcome) -> None:
    """The cgroups' accounts differ by what the ledger measured, each in its direction; by twice as much is a doubt."""
    rows = (use("db", 2, switches=10_000, run_ns=SECOND, **lag), *healthy().cpu_use[1:])
    first, *others = healthy().bandwidth
    told = (replace(first, usage_ns=cgroup_ns, bpf_usage_ns=SECOND), *others)
    verdicts = by_key(judge(CLAIMS, healthy(cpu_use=rows, bandwidth=told)))

    assert verdicts[("cpuset-containment", "db")] is outcome


@pytest.mark.parametrize("nested", [True, False])
def test_what_woken_tasks_of_a_claim_below_cost_is_in_the_account_above(nested: bool) -> None:
    """The outer claim's cgroup counts them; a neighbour's does not."""
    db, web = CLAIMS.claims
    claims = replace(CLAIMS, claims=(db, replace(web, cgroup=f"{db.cgroup}/web") if nested else web))
    rows = (
        use("db", 2, switches=10_000, run_ns=SECOND),
        use("web", 0, switches=10_000, run_ns=SECOND, arrival_lag_ns=SECOND // 2),
    )
    first, *others = healthy().bandwidth
    told = (replace(first, usage_ns=3 * SECOND // 2, bpf_usage_ns=SECOND), *others)
    found = {one.claim for one in disagreements(claims, healthy(cpu_use=rows, bandwidth=told))}

    assert ("db" in found) is not nested


# Properties over arbitrary evidence, most of it neither healthy nor consistent.


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
