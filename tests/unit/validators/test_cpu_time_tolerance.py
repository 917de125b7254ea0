"""How far ledger and cgroup may differ about CPU time: each part of the sum that the page derives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import SECOND, bandwidth, claim_db, claim_set, coverage, evidence, use
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from validators.credibility.agreement import cpu_time_tolerance_ns, disagreements

MS = 1_000_000
ROWS = [use("db", 2, switches=0, samples=100), use("db", 3, switches=0, samples=100)]
TICKS_NS = 2 * 2 * 4 * MS
"""Two reads, a tick of 4 ms, two CPUs."""


@pytest.mark.parametrize(
    ("rows", "found", "more_ns"),
    [
        (ROWS, {}, 0),
        ([replace(ROWS[0], switches=500), ROWS[1]], {}, 500_000),
        (ROWS, {"steal_ns": 7 * MS}, 7 * MS),
        (ROWS, {"steal_ns": -7 * MS}, 0),
        (ROWS, {"coverage": coverage(witness_skew_ns=3 * MS)}, 2 * 3 * MS),
        ([replace(ROWS[0], cuts=5), ROWS[1]], {}, 5 * 4 * MS),
        ([ROWS[0], replace(ROWS[1], run_ns=0)], {}, -TICKS_NS // 2),
    ],
)
def test_each_part_of_it(rows: list[Any], found: dict[str, Any], more_ns: int) -> None:
    """Ticks, switches, steal, the time between the two reads, and moves of a running task; 2 % of the usage."""
    assert cpu_time_tolerance_ns(evidence(**found), rows, 0) == TICKS_NS + more_ns
    assert cpu_time_tolerance_ns(evidence(**found), rows, SECOND) == TICKS_NS + more_ns + 20 * MS


def differs(ledger_ns: int, rows: list[Any], claims: tuple[Claim, ...] = (), **own: Any) -> bool:
    found: Evidence = evidence(
        cpu_use=tuple(rows),
        thread_masks=(),
        bandwidth=(bandwidth("db", claim_db().cgroup, usage_ns=2 * SECOND, bpf_usage_ns=ledger_ns, **own),),
    )
    return any(one.claim == "db" for one in disagreements(claim_set(claim_db(), *claims), found))


def test_each_end_of_a_cgroup_adds_a_reading() -> None:
    """One that was made again, or one that ended between its last reading and its end: ticks and a sampler period."""
    allowed_ns = TICKS_NS + 40 * MS
    life_ns = TICKS_NS + 2 * SECOND // 99
    for more, own in ((0, {}), (life_ns, {"lives": 2}), (life_ns, {"unread_ns": 5}), (2 * life_ns, {"lives": 3})):
        assert not differs(2 * SECOND - allowed_ns - more + 10, ROWS, **own)
        assert differs(2 * SECOND - allowed_ns - more - 10, ROWS, **own)


def test_what_ran_below_is_in_both_accounts() -> None:
    """Switches and CPUs of a claim below widen what is allowed, and its rows say where the time was spent."""
    inner = Claim(name="part", cgroup=f"{claim_db().cgroup}/part")
    rows = [use("part", 2, switches=500), use("part", 3, switches=500)]
    edge_ns = 2 * SECOND - TICKS_NS - 40 * MS - MS

    assert not differs(edge_ns, rows, (inner,))
    assert differs(edge_ns - 10, rows, (inner,))


def test_cpus_without_a_sampler_owe_no_samples() -> None:
    """A nohz_full CPU is left alone: that nothing was sampled there contradicts no witness."""
    rows = (use("db", 2, samples=0), use("db", 3, samples=0))
    found = evidence(cpu_use=rows, coverage=coverage(cpus_unsampled=CpuSet.of([2, 3])))
    claims = claim_set(claim_db())

    assert disagreements(claims, found) == ()
    assert disagreements(claims, replace(found, coverage=coverage()))[0].text.endswith("198 samples were due")
