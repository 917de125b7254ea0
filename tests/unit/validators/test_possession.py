"""Whether two claims ever had a CPU at the same time, by their changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import SECOND, claim_db, claim_web, cpus
from toolkit.model.evidence import Transition
from validators.intruders import possession

OWNER = claim_db(cpus=cpus("2"))
POOL = claim_web(cpus=cpus("0-1,3"))


def change(claim: str, before: str, after: str, from_s: float, to_s: float) -> Transition:
    return Transition(
        claim=claim,
        what="cpus-changed",
        start_at_ns=round(from_s * SECOND),
        end_at_ns=round(to_s * SECOND),
        cpus_before=cpus(before),
        cpus_after=cpus(after),
    )


@pytest.mark.parametrize(("from_s", "to_s", "apart"), [(5, 6, True), (6, 7, True), (4.9, 6, False), (4, 5, False)])
def test_a_cpu_that_changes_hands_at_one_moment_has_one_owner(from_s: float, to_s: float, *, apart: bool) -> None:
    """The owner has given CPU 3 up at 5 s, as a node's reading says for both; the pool may have it from then on."""
    given = change("db", "2-3", "2", 4, 5)
    taken = change("web", "0-1", "0-1,3", from_s, to_s)

    assert possession.apart(OWNER, POOL, 3, (given, taken)) is apart


def test_what_is_not_known_is_not_apart() -> None:
    """Changes that do not follow from one another, a claim without a CPU set, and no change at all."""
    broken = (change("db", "2-3", "2", 1, 2), change("db", "1-3", "2", 3, 4), change("web", "0-1", "0-1,3", 5, 6))

    assert not possession.apart(OWNER, POOL, 3, broken)
    assert not possession.apart(OWNER, replace(POOL, cpus=None), 3, broken[:1])
    assert not possession.apart(replace(OWNER, cpus=cpus("2-3")), POOL, 3, ())
