"""A kernel that loads no programs: what needs none is seen, everything else is undecided and says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from probes.build import build
from probes.composition import WITHOUT_PROGRAMS, WITNESSES, witnesses_for
from probes.loaded import attached_or_not
from probes.options import ObserveOptions
from probes.readings import Readings
from probes.switches.records import PODS_IDENT
from probes.unloaded import UNSEEN, UnobservedReading
from tests.unit.probes.readings import (
    BANDWIDTH,
    CLAIM,
    FILES,
    FRAME,
    MASK,
    MASKS,
    OWN,
    PRESSURE,
    SYSTEM,
    THREADS,
    WRITES,
)
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome
from validators.registry import RULES, judge

WHY = "no bpf here: the kernel refuses it: Operation not permitted"
CLAIMS = ClaimSet(
    claims=(
        replace(CLAIM, quota_us=50_000, period_us=100_000, weight=100, mems=CpuSet.parse("0")),
        Claim(name="web", cgroup="/pods/web", cpus=CpuSet.parse("0"), isolation=Isolation.HOST, weight=200),
    ),
    reserved_cpus=CpuSet.parse("0"),
    strict_reservation=True,
)


def evidence(masks: str = "1") -> Evidence:
    """Return what such an observer sees of a quiet window. :param masks: what every thread may use."""
    mask = replace(MASKS, masks=(replace(MASK, cpus_allowed=CpuSet.parse(masks)),))
    readings = (OWN, mask, WRITES, FILES, THREADS, PRESSURE, BANDWIDTH, SYSTEM, UnobservedReading(why=WHY))
    return build(Readings(replace(FRAME, sampled=EMPTY), readings))


def test_nothing_passes_that_rests_on_programs() -> None:
    """Undecided, by the one reason, and never failed: that nothing was counted is no proof of anything."""
    verdicts = judge(CLAIMS, evidence())
    resting = {rule.id for rule in RULES if set(UNSEEN) & rule.rests_on(CLAIMS)}
    outcomes = {verdict.outcome for verdict in verdicts if verdict.rule in resting}
    assert outcomes <= {Outcome.UNDECIDED, Outcome.SKIPPED}
    assert not [verdict for verdict in verdicts if verdict.outcome is Outcome.FAILED]
    (contained,) = [one for one in verdicts if (one.rule, one.subject) == ("cpuset-containment", "db")]
    assert contained.outcome is Outcome.UNDECIDED
    assert ": switches, slots, system-tasks, interrupts, " in contained.reason
    assert contained.reason.endswith(f" and actions are not observed ({WHY})")
    (health,) = [one for one in verdicts if one.rule == "evidence-health"]
    assert (health.outcome, WHY in health.reason) == (Outcome.UNDECIDED, True)


def test_masks_are_judged_without_them() -> None:
    """A mask beyond the claim is found, one within it passes."""
    for masks, outcome in (("1", Outcome.PASSED), ("0-1", Outcome.FAILED)):
        found = [one for one in judge(CLAIMS, evidence(masks)) if (one.rule, one.subject) == ("affinity-mask", "db")]
        assert [one.outcome for one in found] == [outcome]


def test_the_kernel_s_own_witness_of_waits_goes_on() -> None:
    """Its pressure stall information stands in measures, and no wait by a ledger that was not there beside it."""
    (quota,) = [one for one in judge(CLAIMS, evidence()) if (one.rule, one.subject) == ("quota-throttling", "db")]
    assert (quota.measures["psi_some_us"], quota.measures["psi_full_us"]) == (700, 600)
    assert not {"waited_ns", "longest_wait_ns", "migrations_count"} & set(quota.measures)


def test_rows_of_a_ledger_beside_the_word_that_there_is_none_are_doubted() -> None:
    """The word spares comparisons with a ledger only where nothing of one is in the evidence."""
    seen = evidence()
    both = replace(seen, coverage=replace(seen.coverage, switches_judged=5))
    (health,) = [one for one in judge(CLAIMS, both) if one.rule == "evidence-health"]
    assert (health.outcome, "5 switches judged of" in health.reason) == (Outcome.UNDECIDED, True)


def test_the_ledger_that_stands_for_them_takes_claims_and_counts_nothing() -> None:
    """What an observer does with a ledger, it can do with this one; why is said once, before anything."""
    said: list[str] = []
    with attached_or_not(Path("/"), ObserveOptions(), WHY, said.append) as ledger, ledger.lent():
        assert said == [WHY]
        assert not ledger.observed
        assert ledger.sample(ledger.online()) == EMPTY
        ledger.set_hierarchies({"cpuset": 3})
        ledger.publish(0, CpuSet.parse("0"), 0)
        ledger.add_root(5, 0, PODS_IDENT)
        ledger.new_window()
        assert ledger.rows.ns(0, ledger.window) == 0
        assert ledger.rows.all_ns([0, 1], ledger.window) == [0, 0]
        assert (ledger.missed_runs(), ledger.programs) == (0, {})
        ledger.wake()
        ledger.poll(0)
        assert witnesses_for(ledger) == WITHOUT_PROGRAMS


@pytest.mark.parametrize("made", WITHOUT_PROGRAMS[:-1])
def test_it_is_composed_of_those_that_go_on(made: object) -> None:
    """The others' own classes, in their order: no second version of any."""
    assert made in WITNESSES
    kept = [one for one in WITNESSES if one in WITHOUT_PROGRAMS]
    assert list(WITHOUT_PROGRAMS[:-1]) == kept
