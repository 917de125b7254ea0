"""How CPUs lie on NUMA nodes: the rule ``numa-alignment`` about numbers, pods, an even spread and distances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, cpus, db_files, web_files
from tests.unit.validators.machine_builder import machine, with_topology
from toolkit.model.claims import Alignment, Claim, Preference
from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict
from validators.rules import numa_alignment, smt_alignment

FOUR = {"0": "0-3", "1": "4-7", "2": "8-11", "3": "12-15"}
CORES = [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)]
DISTANCES = {
    "ids": [0, 1, 2, 3],
    "matrix": [[10, 12, 20, 20], [12, 10, 20, 20], [20, 20, 10, 12], [20, 20, 12, 10]],
}


def four(granted: str, **changes: Any) -> Evidence:
    """Evidence of a machine with four nodes, two of them near each other."""
    found = with_topology(machine(granted), numa_nodes=FOUR, core_cpus=CORES, numa_distances=DISTANCES, **changes)
    every = cpus("0-15")
    coverage = replace(found.coverage, cpus_online=every, cpus_seen=every)
    return replace(found, environment=replace(found.environment, cpus_online=every), coverage=coverage)


def judged(claim: Claim, found: Evidence) -> Verdict:
    (verdict,) = numa_alignment.RULE(claim_set(claim), found)
    return verdict


@pytest.mark.parametrize(
    ("granted", "outcome"), [("0-1", "passed"), ("0-7", "passed"), ("0,15", "passed"), ("0,4,8", "failed")]
)
def test_no_more_nodes_than_were_promised(granted: str, outcome: str) -> None:
    """restricted: two nodes are enough for the request, so CPUs on three are a failure."""
    verdict = judged(claim_db(cpus=cpus(granted), max_numa_nodes=2), four(granted))

    assert verdict.outcome.value == outcome
    assert verdict.measures["max_numa_nodes"] == 2


@pytest.mark.parametrize(
    ("cores", "granted", "outcome"),
    [
        (False, "0-2,4-6", "passed"),
        (False, "0-2,4-5", "passed"),
        (False, "0-3,4-5", "failed"),
        (False, "0-3", "passed"),
        (True, "0-3,4-5", "passed"),
        (True, "0-3,4", "failed"),
        (False, "0-2,4-6,8", "failed"),
    ],
)
def test_an_even_spread(cores: bool, granted: str, outcome: str) -> None:
    """Nodes differ by one CPU at most, or by one core where whole cores are promised."""
    alignments = (Alignment.NUMA_EVEN, *((Alignment.SMT,) if cores else ()))

    assert judged(claim_db(cpus=cpus(granted), alignments=alignments), four(granted)).outcome.value == outcome


@pytest.mark.parametrize(("other", "outcome"), [("2-3", "passed"), ("4-5", "failed")])
@pytest.mark.parametrize("most", [None, 1])
def test_a_pod_as_a_whole(other: str, outcome: str, most: int | None) -> None:
    """Pod scope: each container lies on one node, and the pod's containers lie on the same one."""
    kinds = (Alignment.NUMA_POD, *(() if most else (Alignment.NUMA,)))
    one = claim_db(cpus=cpus("0-1"), alignments=kinds, max_numa_nodes=most)
    two = claim_web(pod=one.pod, cpus=cpus(other), quota_us=None, alignments=kinds, max_numa_nodes=most)
    mine = db_files(cpus=cpus("0-1"), cpus_effective=cpus("0-1"))
    theirs = web_files(cpus=cpus(other), cpus_effective=cpus(other))
    found = replace(four("0-1"), files_before=(mine, theirs), files_after=(mine, theirs))

    verdicts = numa_alignment.RULE(claim_set(one, two), found)

    assert [verdict.outcome.value for verdict in verdicts] == [outcome, outcome]


@pytest.mark.parametrize(
    ("promised", "granted", "outcome"),
    [
        ("0-5", "0-5", "passed"),
        ("0-3", "0-3", "passed"),
        ("0-3,8-9", "0-3,8-9", "skipped"),
        ("0-5", "0-3,8-9", "failed"),
    ],
)
def test_closest_nodes(promised: str, granted: str, outcome: str) -> None:
    """Far nodes that the node gave are reported; one that was given near ones and has far ones now lost some."""
    verdict = judged(claim_db(cpus=cpus(promised), preferences=(Preference.CLOSEST,)), four(granted))

    assert verdict.outcome.value == outcome
    assert verdict.reason.startswith("preferred, not guaranteed") == (outcome == "skipped")


def test_distances_that_are_not_known_are_undecided() -> None:
    """Nothing can be said without them, or if they are nonsense."""
    claim = claim_db(cpus=cpus("0-5"), preferences=(Preference.CLOSEST,))
    for nonsense in (None, {}, {"ids": [0]}, {"ids": [0, 1, 2, 3], "matrix": [[1]] * 4}, {"ids": "0123", "matrix": 4}):
        assert judged(claim, with_topology(four("0-5"), numa_distances=nonsense)).outcome is Outcome.UNDECIDED


def test_an_unknown_machine_decides_nothing() -> None:
    """Neither a number nor a spread can be judged without the nodes."""
    for claim in (claim_db(max_numa_nodes=1), claim_db(alignments=(Alignment.NUMA_EVEN,))):
        assert judged(claim, with_topology(machine(), numa_nodes=None)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("promised", "granted", "outcome"),
    [("0,2", "0,2", "passed"), ("0-1", "0-1", "skipped"), ("0,2", "0-1", "failed"), ("0-15", "0-15", "passed")],
)
def test_distinct_cores(promised: str, granted: str, outcome: str) -> None:
    """CPUs that were given on different cores stay there; that they were not is reported; more CPUs than cores pass."""
    claim = claim_db(cpus=cpus(promised), preferences=(Preference.CORES,))
    (verdict,) = smt_alignment.RULE(claim_set(claim), four(granted))

    assert verdict.outcome.value == outcome
