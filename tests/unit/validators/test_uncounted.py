"""Parts that are missing from a whole although no blind spot says so: nothing that rests on them passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, WINDOW_NS, coverage
from tests.unit.validators.trust_builder import CLAIMS, by_key, healthy
from toolkit.model.blind_spots import BlindSpot, ScanGap, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, HotplugEvent, Transition
from toolkit.model.interrupts import IrqKind, IrqUse
from toolkit.model.verdict import Outcome
from validators.credibility.trust import doubts
from validators.credibility.uncounted import uncounted
from validators.registry import judge

GAP = ScanGap(claim="db", scans=3, longest_ns=2 * SECOND, at_ns=0, allowed_ns=SECOND)
SOFT = IrqUse(cpu=2, kind=IrqKind.SOFT, name="TIMER", vector=1, count=90, ns=900, longest_ns=300)


def undecided(**found: Any) -> set[tuple[str, str]]:
    """Which verdicts of healthy evidence are undecided by this change; nothing fails by it."""
    before, after = (by_key(judge(CLAIMS, one)) for one in (healthy(), healthy(**found)))
    assert Outcome.FAILED not in after.values()
    return {key for key, outcome in after.items() if outcome is Outcome.UNDECIDED and before[key] is Outcome.PASSED}


def short(evidence: Evidence, claim: str) -> dict[str, Any]:
    """The counters of one claim's cgroup are of the first half of the window."""
    rows = tuple(
        replace(row, window_ns=WINDOW_NS // 2) if (row.claim, row.level) == (claim, 0) else row
        for row in evidence.bandwidth
    )
    return {"bandwidth": rows}


def test_threads_that_were_not_read_for_longer_than_stated() -> None:
    """Of one claim; a blind spot that says it is enough, and one of another claim is not."""
    about = {("affinity-mask", "db"), ("layers-agree", "db"), ("evidence-health", "node")}
    assert undecided(coverage=coverage(scan_gaps=(GAP,))) == about
    spots = [BlindSpot(text="masks", witnesses=(Witness.MASKS,), claim=claim) for claim in ("db", "web", None)]
    told = [uncounted(CLAIMS, healthy(coverage=coverage(scan_gaps=(GAP,), blindness=(spot,)))) for spot in spots]

    assert [len(one) for one in told] == [0, 1, 0]


@pytest.mark.parametrize(("kernel", "skew", "missing"), [(90, 0, False), (92, 2, False), (92, 1, True), (88, 1, True)])
def test_softirqs_that_passed_no_tracepoint(kernel: int, skew: int, *, missing: bool) -> None:
    """The two counts differ by no more than the reads are apart."""
    counts = coverage(softirqs_judged=90, softirqs_kernel=kernel, softirqs_skew=skew)
    found = doubts(CLAIMS, healthy(irq_use=(SOFT,), coverage=counts))

    assert [one.witnesses for one in found] == ([frozenset({Witness.INTERRUPTS})] if missing else [])


def test_more_steal_than_there_is() -> None:
    """What is allowed for it would be anything; as much as there is may be."""
    assert undecided(steal_ns=4 * WINDOW_NS) == set()
    assert ("cpuset-containment", "db") in undecided(steal_ns=5 * WINDOW_NS)
    assert ("exclusive-cpus", "db") in undecided(steal_by_cpu_ns={2: 2 * WINDOW_NS})


def test_counters_of_half_the_window() -> None:
    """Throttling in the other half would not show; of a container that came or went it is so."""
    found = short(healthy(), "db")
    assert undecided(**found) == {("quota-free", "db"), ("evidence-health", "node")}

    lives = tuple(replace(row, lives=2) for row in found["bandwidth"])
    assert uncounted(CLAIMS, healthy(bandwidth=lives)) == ()

    came = Transition(claim="db", what="claim-added", start_at_ns=5, end_at_ns=6)
    assert uncounted(CLAIMS, healthy(**found, transitions=(came,))) == ()


@pytest.mark.parametrize(
    ("part", "outcome"), [(0, Outcome.UNDECIDED), (0.9, Outcome.UNDECIDED), (0.97, Outcome.PASSED), (1.5, None)]
)
def test_time_that_is_in_no_slot(part: float, outcome: Outcome | None) -> None:
    """Of a claim with a quota, in whose slots bursts are looked for: too much is as wrong as too little."""
    slots = tuple(
        replace(entry, usage_ns=int(entry.usage_ns * part)) if entry.claim == "web" else entry
        for entry in healthy().usage_bins
    )
    found = healthy(usage_bins=slots)
    verdict = by_key(judge(CLAIMS, found))["quota-throttling", "web"]

    assert verdict is outcome or (outcome is None and verdict is not Outcome.PASSED)
    assert bool(uncounted(CLAIMS, found)) is (outcome is not Outcome.PASSED)


@pytest.mark.parametrize(("ran_ms", "missing"), [(99, False), (100, True)])
def test_a_claim_that_ran_and_has_no_slot_at_all(ran_ms: int, *, missing: bool) -> None:
    """Long slots excuse what is at their edges, not that there is none."""
    db, _, web = healthy().cpu_use
    rows = (db, replace(web, run_ns=ran_ms * 1_000_000))
    slots = tuple(replace(entry, length_ns=SECOND) for entry in healthy().usage_bins if entry.claim == "db")

    assert bool(uncounted(CLAIMS, healthy(cpu_use=rows, usage_bins=slots))) is missing


@pytest.mark.parametrize("long_of", ["db", "web"])
def test_long_slots_excuse_their_own_claim(long_of: str) -> None:
    """A quota may be new in a window that had none before, whose slots are five seconds long."""
    slots = tuple(
        replace(entry, usage_ns=entry.usage_ns // 2 if entry.claim == "web" else entry.usage_ns)
        for entry in healthy().usage_bins
    )
    (first, *_) = (entry for entry in slots if entry.claim == long_of)
    last_ns = max(entry.start_at_ns + entry.length_ns for entry in slots if entry.claim == long_of)
    long = replace(first, start_at_ns=last_ns, length_ns=5 * SECOND, usage_ns=0)

    texts = [one.text for one in uncounted(CLAIMS, healthy(usage_bins=(*slots, long)))]
    assert any("ms in slots" in text for text in texts) is (long_of == "db")


def test_slots_of_a_claim_without_a_quota_are_not_asked() -> None:
    """None of them: nothing rests on them."""
    only = tuple(entry for entry in healthy().usage_bins if entry.claim == "web")

    assert undecided(usage_bins=only) == set()


@pytest.mark.parametrize("at_ns", [-1, WINDOW_NS // 100 * 3 - 1, WINDOW_NS * 2])
def test_slots_that_overlap_or_lie_elsewhere(at_ns: int) -> None:
    """One that is moved: before the window, into the one before it, far beyond the end."""
    moved = tuple(
        replace(entry, start_at_ns=at_ns)
        if (entry.claim, entry.start_at_ns) == ("web", WINDOW_NS // 100 * 3)
        else entry
        for entry in healthy().usage_bins
    )

    assert [one.witnesses for one in uncounted(CLAIMS, healthy(usage_bins=moved))] == [(Witness.SLOTS,)]


def test_two_readings_of_what_is_online() -> None:
    """A CPU that went or came without an event: nothing passes; with one the event itself says so."""
    base = healthy()
    less = replace(base.environment, cpus_online=CpuSet.of(range(3)))
    (found,) = uncounted(CLAIMS, healthy(environment=less))

    assert (found.claim, set(found.witnesses)) == (None, set(Witness))
    assert found.text.startswith("CPU 3 went or came")
    event = HotplugEvent(cpu=3, online=True, at_ns=5)
    assert uncounted(CLAIMS, healthy(environment=less, hotplug=(event,))) == ()
