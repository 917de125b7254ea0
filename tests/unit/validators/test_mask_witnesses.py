"""The rule ``affinity-mask`` where the masks that were read and the ledger disagree."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import claim_db, claim_set, evidence, mask, use
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import affinity_mask

OUTSIDE = replace(use("db", 0), run_ns=41_200, out_of_set_switches=3, out_of_set_ns=41_200)


def escaped(allowed: str) -> Verdict:
    """The verdict where a task ran on CPU 0, and ``allowed`` is the only mask that was read."""
    found = evidence(thread_masks=(mask("db", allowed),), cpu_use=(*evidence().cpu_use, OUTSIDE))
    return affinity_mask.RULE(claim_set(claim_db()), found)[0]


def test_a_task_that_ran_outside_is_named_beside_masks_that_were_good_when_they_were_read() -> None:
    """What ran is judged by the ledger's rules; this one reports that its own words are not the whole."""
    verdict = escaped("2-3")

    assert verdict.outcome is Outcome.PASSED
    assert (
        verdict.reason
        == "1 thread within CPUs 2-3 at each reading, but a task of it ran on CPU 0: see cpuset-containment"
    )


def test_a_wide_mask_that_was_read_fails() -> None:
    """The ledger then only confirms it."""
    assert escaped("0-3").outcome is Outcome.FAILED
