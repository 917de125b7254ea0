"""Claims about cgroups below a claim's own: their tasks are the outer claim's, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_db, claim_set, cpus, evidence, use
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.evidence import CpuUse, Transition
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import cpuset_containment

DB = claim_db()
INNER = Claim(name="db/part", cgroup=f"{DB.cgroup}/part", pod="a", cpus=cpus("2-3"))


def outer(inner: Claim, *rows: CpuUse, changes: tuple[Transition, ...] = (), **claim: Any) -> Verdict:
    found = evidence(cpu_use=(use("db", 2), *rows), transitions=changes)
    return cpuset_containment.check(claim_set(replace(DB, **claim), inner), found)[0]


def change(claim: str, before: str, after: str, at_s: float) -> Transition:
    at_ns = int(at_s * SECOND)
    return Transition(
        claim=claim,
        what="cpus-changed",
        start_at_ns=at_ns,
        end_at_ns=at_ns + 1000,
        cpus_before=cpus(before),
        cpus_after=cpus(after),
    )


@pytest.mark.parametrize(
    ("kind", "cpu", "outcome"),
    [
        (SubjectKind.CONTAINER, 3, Outcome.PASSED),
        (SubjectKind.CONTAINER, 0, Outcome.FAILED),
        (SubjectKind.EPHEMERAL, 0, Outcome.PASSED),
    ],
)
def test_they_keep_to_both_sets_but_ephemeral_containers(kind: SubjectKind, cpu: int, outcome: Outcome) -> None:
    """An ephemeral container has the node's pool."""
    inner = replace(INNER, cpus=cpus("0-3"), kind=kind)

    assert outer(inner, use("db/part", cpu)).outcome is outcome


SHRINK = change("db", "2-3", "2", 5)


@pytest.mark.parametrize(
    ("own", "outcome"),
    [
        ((), Outcome.UNDECIDED),
        ((change("db/part", "2-3", "2", 4),), Outcome.PASSED),
        ((change("db/part", "2-3", "2", 7),), Outcome.UNDECIDED),
    ],
)
def test_a_cpu_that_they_had_for_longer_is_not_dated(own: tuple[Transition, ...], outcome: Outcome) -> None:
    """The ledger's row is of the whole window: what ran there may have run after the outer claim lost the CPU."""
    inner = replace(INNER, cpus=cpus("2")) if own else INNER

    assert outer(inner, use("db/part", 3), changes=(SHRINK, *own), cpus=cpus("2")).outcome is outcome
    assert outer(inner, use("db/part", 2), changes=(SHRINK, *own), cpus=cpus("2")).outcome is Outcome.PASSED


def test_a_claim_without_promised_cpus_has_none_that_are_dated() -> None:
    """What such a claim may use is the outer claim's, at each moment."""
    inner = replace(INNER, cpus=None)

    assert outer(inner, use("db/part", 3), changes=(SHRINK,), cpus=cpus("2")).outcome is Outcome.UNDECIDED
    assert outer(inner, use("db/part", 3)).outcome is Outcome.PASSED
