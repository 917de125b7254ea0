"""The rule ``cpuset-containment``: boundaries, negative controls, and what is not evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    bandwidth,
    claim_db,
    claim_set,
    coverage,
    cpus,
    evidence,
    mask,
    use,
    web_bandwidth,
)
from toolkit.model.claims import SubjectKind
from toolkit.model.evidence import Evidence, HotplugEvent, Joinings, Transition
from toolkit.model.verdict import Offender, Outcome, Verdict
from validators.rules.cpuset_containment import RULE


def db(found: Evidence) -> Verdict:
    """The verdict about ``db``."""
    return next(verdict for verdict in RULE(claim_set(), found) if verdict.subject == "db")


def escape(**changes: int) -> Evidence:
    """``db`` on CPU 0, where it must not be."""
    row = use("db", 0, switches=1, run_ns=10_000, samples=0)
    return evidence(cpu_use=(*evidence().cpu_use, replace(row, **changes)))


def test_healthy() -> None:
    """Tasks that stay inside pass, with the numbers."""
    verdict = db(evidence())

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["switches_judged"] == 2000
    assert verdict.measures["out_of_set_switches"] == 0


def test_one_switch_is_enough() -> None:
    """The negative control: a single interval of 10 us outside fails, and says where."""
    verdict = db(escape(out_of_set_switches=1, out_of_set_ns=10_000, out_of_set_longest_ns=10_000))

    assert verdict.outcome is Outcome.FAILED
    assert "CPU 0 outside 2-3" in verdict.reason
    assert verdict.measures["out_of_set_ns"] == 10_000
    assert verdict.offenders[0].cpu == 0


@pytest.mark.parametrize(
    "changes", [{"out_of_set_switches": 1}, {"out_of_set_ns": 1}, {"out_of_set_samples": 1, "samples": 1}]
)
def test_each_counter_proves_it(changes: dict[str, int]) -> None:
    """A switch, time, or a sample outside is each proof by itself."""
    assert db(escape(**changes)).outcome is Outcome.FAILED


def test_offenders_are_named() -> None:
    """Named offenders come first by harm; a CPU whose details were lost is listed all the same."""
    small = Offender(claim="db", tid=2, comm="b", cpu=0, first_at_ns=5, total_ns=10, longest_ns=10)
    big = Offender(claim="db", tid=1, comm="a", cpu=0, first_at_ns=9, total_ns=90, longest_ns=90)
    found = escape(out_of_set_switches=2, out_of_set_ns=100)
    extra = use("db", 1, switches=1, run_ns=50, samples=0, out_of_set_switches=1, out_of_set_ns=50)
    found = replace(found, cpu_use=(*found.cpu_use, extra), offenders=(small, big))

    offenders = db(found).offenders

    assert [(row.tid, row.cpu) for row in offenders] == [(1, 0), (0, 1), (2, 0)]


def test_an_offender_without_its_row_is_proof() -> None:
    """A named offender fails the claim even if the counters' row is missing."""
    row = Offender(claim="db", tid=7, comm="x", cpu=0, first_at_ns=0, total_ns=10, longest_ns=10)

    assert db(evidence(offenders=(row,))).outcome is Outcome.FAILED


def test_loss_does_not_hide_a_failure() -> None:
    """Lost events leave ``failed`` alone."""
    found = replace(escape(out_of_set_switches=1), coverage=coverage(lost_events=9))

    assert db(found).outcome is Outcome.FAILED


def test_transition_is_not_a_violation() -> None:
    """Intervals that belong to a transition are measures."""
    verdict = db(escape(transition_switches=1, transition_ns=10_000))

    assert verdict.outcome is Outcome.PASSED
    assert verdict.measures["transition_ns"] == 10_000


def test_nothing_seen_is_undecided() -> None:
    """No switch and no sample is no evidence, whatever else was read."""
    others = use("web", 0, run_ns=5 * SECOND)

    assert db(evidence(cpu_use=(others,))).outcome is Outcome.UNDECIDED
    assert db(evidence(cpu_use=(others, use("db", 1, switches=0, samples=0)))).outcome is Outcome.UNDECIDED


def test_no_promise_is_skipped() -> None:
    """A pause sandbox without a set is not judged."""
    claim = claim_db(cpus=None, kind=SubjectKind.SANDBOX)

    assert RULE(claim_set(claim), evidence())[0].outcome is Outcome.SKIPPED


def test_all_cpus_offline_is_a_degradation() -> None:
    """When all CPUs of a claim go offline the kernel lends the parent's: neither passed nor failed."""
    events = tuple(HotplugEvent(cpu=cpu, online=False, at_ns=1) for cpu in (2, 3))
    found = replace(escape(out_of_set_switches=1), hotplug=events)

    assert db(found).outcome is Outcome.UNDECIDED
    assert db(replace(found, hotplug=events[:1])).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("first_at_s", "outcome"), [(1.0, "failed"), (8.4, "failed"), (8.5, "undecided"), (8.6, "undecided")]
)
def test_an_escape_before_its_cpus_went_offline_stays_one(first_at_s: float, outcome: str) -> None:
    """What began before all of them were gone is no loan of the kernel's; events are dated up to half a second late."""
    row = Offender(claim="db", tid=7, comm="x", cpu=0, first_at_ns=round(first_at_s * SECOND), total_ns=9, longest_ns=9)
    events = tuple(HotplugEvent(cpu=cpu, online=False, at_ns=at_s * SECOND) for cpu, at_s in ((2, 5), (3, 9)))
    found = replace(escape(out_of_set_switches=1, out_of_set_ns=9), offenders=(row,), hotplug=events)

    assert db(found).outcome.value == outcome


def test_cpus_that_were_never_offline_together_excuse_nothing() -> None:
    """One was back before the other went: the claim had a CPU all the time."""
    told = ((2, False, 1), (2, True, 2), (3, False, 3))
    events = tuple(HotplugEvent(cpu=cpu, online=online, at_ns=at_s * SECOND) for cpu, online, at_s in told)
    found = replace(escape(out_of_set_switches=1), hotplug=events)

    assert db(found).outcome is Outcome.FAILED
    # The other one was offline when the window opened.
    assert db(replace(found, hotplug=(*events[2:], replace(events[1], at_ns=4 * SECOND)))).outcome is Outcome.UNDECIDED


def test_a_cpu_that_belonged_to_it_before_is_fine() -> None:
    """After a planned change of the set, time on a CPU of the old set is legal."""
    change = Transition(
        claim="db", what="cpus", start_at_ns=1, end_at_ns=2, cpus_before=cpus("0,2-3"), cpus_after=cpus("2-3")
    )
    found = replace(escape(), transitions=(change,), thread_masks=(mask("db", "0,2-3"),))

    assert db(found).outcome is Outcome.PASSED
    assert db(escape()).outcome is Outcome.UNDECIDED  # The same time without the change cannot be explained.


@pytest.mark.parametrize(
    ("ledger_ms", "outcome"), [(0, "passed"), (40, "passed"), (80, "undecided"), (-80, "undecided")]
)
def test_two_witnesses_of_cpu_time(ledger_ms: int, outcome: str) -> None:
    """The ledger may differ from the cgroup by the derived tolerance (58 ms here), in either direction."""
    own = bandwidth("db", "/kubepods/poda/db", bpf_usage_ns=2 * SECOND + ledger_ms * 1_000_000)

    assert db(evidence(bandwidth=(own, web_bandwidth()))).outcome.value == outcome


@pytest.mark.parametrize("own", [None, {"usage_ns": None}, {"bpf_usage_ns": None}])
def test_a_missing_witness_is_undecided(own: dict[str, None] | None) -> None:
    """One witness alone does not pass."""
    rows = () if own is None else (bandwidth("db", "/kubepods/poda/db", **own),)

    assert db(evidence(bandwidth=rows)).outcome is Outcome.UNDECIDED


def test_the_sampler_is_a_witness_of_placement() -> None:
    """Samples where the ledger saw nothing, or none where many were due, are a disagreement."""
    ghost = use("db", 3, switches=0, run_ns=0, samples=5)
    silent = [replace(row, samples=0) for row in evidence().cpu_use]

    assert db(evidence(cpu_use=(use("db", 2), ghost))).outcome is Outcome.UNDECIDED
    assert db(evidence(cpu_use=tuple(silent))).outcome is Outcome.UNDECIDED


def test_masks_are_a_witness_of_placement() -> None:
    """A second of run time on a CPU that no thread's mask allowed is a disagreement."""
    assert db(evidence(thread_masks=(mask("db", "2"),))).outcome is Outcome.UNDECIDED


def test_a_set_that_came_back_is_not_named_as_the_one_that_was_left() -> None:
    """It had another set when it ran there: ``CPU 2 outside 2-3`` would be no sentence."""
    row = replace(use("db", 2), out_of_set_switches=1, out_of_set_ns=10_000, out_of_set_longest_ns=10_000)
    verdict = db(evidence(cpu_use=(*evidence().cpu_use, row)))

    assert verdict.outcome is Outcome.FAILED
    assert "CPU 2 outside the set of the time (by now 2-3)" in verdict.reason


@pytest.mark.parametrize(("more_ns", "outcome"), [(0, Outcome.PASSED), (1, Outcome.FAILED)])
@pytest.mark.parametrize(("duration_ns", "most_ns"), [(10 * SECOND, 1_500_000_000), (20 * SECOND, 3_000_000_000)])
def test_joinings_have_a_bound(duration_ns: int, most_ns: int, more_ns: int, outcome: Outcome) -> None:
    """What exec probes explain passes, with its measures; what joins without an end lives outside, and is named."""
    found = evidence(duration_ns=duration_ns)
    outside_ns = most_ns + more_ns
    row = use("db", 0, switches=1, run_ns=outside_ns, samples=0, transition_switches=1, transition_ns=outside_ns)
    worst = Offender(claim="db", tid=9, comm="probe", cpu=0, first_at_ns=0, total_ns=7, longest_ns=7, switches=1)
    joinings = Joinings(claim="db", count=30, outside_ns=outside_ns, slowest_ns=SECOND // 10, worst=(worst,))

    verdict = db(replace(found, cpu_use=(*found.cpu_use, row), joinings=(joinings,)))

    assert verdict.outcome is outcome
    keys = ("joinings", "joining_outside_ns", "joining_slowest_ns")
    assert [verdict.measures[key] for key in keys] == [30, outside_ns, SECOND // 10]
    assert verdict.offenders == ((worst,) if more_ns else ())
    if more_ns:
        assert "in 30 joinings" in verdict.reason
