"""Reasons of verdicts that pass are sentences, true word by word, also where a set changed or a pod has more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import (
    SECOND,
    bandwidth,
    claim_db,
    claim_set,
    claim_web,
    coverage,
    cpus,
    evidence,
    mask,
    use,
)
from tests.unit.validators.machine_builder import machine
from toolkit.model.claims import Alignment, Claim, Isolation
from toolkit.model.evidence import Transition
from toolkit.model.verdict import Outcome
from validators.registry import judge
from validators.rules import (
    affinity_mask,
    cpuset_containment,
    evidence_health,
    quota_free,
    smt_alignment,
    transition_window,
)

SHRUNK = Transition(
    claim="db", what="mask-change", start_at_ns=1, end_at_ns=2, cpus_before=cpus("1-3"), cpus_after=cpus("2-3")
)


def test_a_set_that_was_wider_before() -> None:
    """Threads and switches were on CPU 1 while the claim had it: that is said beside the set of now."""
    found = evidence(
        transitions=(SHRUNK,),
        thread_masks=(mask("db", "1-3", epoch=0), mask("db", "2-3", epoch=1)),
        cpu_use=(*evidence().cpu_use, use("db", 1)),
    )

    masks = affinity_mask.check(claim_set(), found)[0]
    switches = cpuset_containment.check(claim_set(), found)[0]
    assert (masks.outcome, switches.outcome) == (Outcome.PASSED, Outcome.PASSED)
    assert "1 thread within CPUs 2-3 (1-3 before a change)" in masks.reason
    assert "outside CPUs 2-3 (1-3 before a change)" in switches.reason
    assert switches.measures["excused"] == "1-3 before a change"


def test_measures_that_are_texts_are_things_and_no_parts_of_sentences() -> None:
    """A name, a set or a phrase by itself: what joins it to a sentence is the sentence's, and nothing is no measure."""
    moving = use("web", 2, switches=1, run_ns=900_000, samples=0, transition_switches=1, transition_ns=900_000)
    busy = evidence(transitions=(SHRUNK,), cpu_use=(*evidence().cpu_use, moving))
    strict = claim_set(reserved_cpus=cpus("2"), strict_reservation=True)

    for found in (*judge(claim_set(), evidence()), *judge(strict, busy)):
        texts = {name: value for name, value in found.measures.items() if isinstance(value, str)}
        assert all(text == text.strip(" (),;") and text for text in texts.values()), (found.rule, texts)
        assert "but" not in found.measures


def test_what_narrowed_a_mask_is_not_said() -> None:
    """A thread may have narrowed itself, or got the runtime's own affinity: the mask does not tell."""
    found = evidence(thread_masks=(mask("db", "2"),))

    assert affinity_mask.check(claim_set(), found)[0].reason == "1 thread within CPUs 2-3, 1 with a narrower mask"


def test_a_pod_that_has_a_quota() -> None:
    """The container has none; its pod has one, as it may: "no quota on 2 levels" would not be so."""
    side = claim_web(name="side", pod="a", isolation=Isolation.POD)
    rows = (
        bandwidth("db", "/kubepods/poda/db"),
        bandwidth("db", "/kubepods/poda", 1, quota_us=400_000),
        bandwidth("db", "/kubepods", 2),
    )
    verdict = quota_free.check(claim_set(claim_db(), side), evidence(bandwidth=rows))[0]

    assert verdict.outcome is Outcome.PASSED
    assert verdict.reason == "no quota of its own, its pod has 400 ms / 100 ms, as it may; not throttled on 3 levels"


@pytest.mark.parametrize(("later", "outcome"), [(False, "undecided"), (True, "passed")])
def test_a_change_that_was_never_seen_to_hold(later: bool, outcome: str) -> None:
    """A thread whose last mask is still the old one: nothing shows that the change held, with a limit or without."""
    wide = mask("db", "1-3", epoch=1, first_at_ns=3, last_at_ns=5)
    inside = (mask("db", "2-3", epoch=1, first_at_ns=6),) if later else ()
    found = evidence(transitions=(SHRUNK,), thread_masks=(wide, *inside))

    for limit in (None, 1000.0):
        verdict = transition_window.check(claim_set(transition_limit_ms=limit), found)[0]
        assert verdict.outcome.value == outcome
        assert ("was never read inside the new set" in verdict.reason) is not later


def test_whole_cores_and_a_claim_inside() -> None:
    """A claim about a cgroup below the container's is no foreign workload; a start that went by is named."""
    owner = replace(claim_db(cpus=cpus("2,6"), alignments=(Alignment.SMT,)), pod="")
    inner = Claim(name="part", cgroup=f"{owner.cgroup}/part", cpus=cpus("2"))
    web = claim_web()
    moving = use("web", 6, run_ns=2_000_000, switches=1, transition_switches=1, transition_ns=2_000_000, samples=0)
    found = replace(machine(), cpu_use=(use("part", 2), moving))
    verdict = smt_alignment.check(claim_set(owner, inner, web), found)[0]

    assert verdict.outcome is Outcome.PASSED, verdict.reason
    assert "are 1 whole core, where no foreign workload ran but 2.0 ms of `web`" in verdict.reason


def test_switches_that_cannot_be_judged() -> None:
    """The difference to the kernel's count is explained where it is given."""
    found = evidence(
        duration_ns=10 * SECOND,
        cpu_use=tuple(replace(row, switches=100) for row in evidence().cpu_use),
        coverage=coverage(switches_judged=990, switches_kernel=1000, switches_untraced=10),
    )
    reason = evidence_health.check(claim_set(), found)[0].reason

    assert "990 of 1000 switches judged, 10 not traced by the kernel, 0 lost" in reason
