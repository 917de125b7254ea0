"""The rules ``smt-``, ``llc-``, ``numa-`` and ``socket-alignment``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.alignment_builder import RULES, db
from tests.unit.validators.evidence_builder import claim_db, claim_set, claim_web, cpus, db_files, intruder, use
from tests.unit.validators.machine_builder import machine, with_topology
from toolkit.model.claims import Alignment, Claim
from toolkit.model.evidence import Evidence, Intruder, OwnerClass, Transition
from toolkit.model.verdict import Outcome, Verdict
from validators.rule import Rule
from validators.rules import llc_alignment, numa_alignment, smt_alignment

KEYS = {
    Alignment.SMT: "core_cpus",
    Alignment.LLC: "l3_cpus",
    Alignment.NUMA: "numa_nodes",
    Alignment.SOCKET: "socket_cpus",
}


def judged(rule: Rule, claim: Claim, found: Evidence) -> Verdict:
    verdicts = rule(claim_set(claim), found)
    assert len(verdicts) == 1
    return verdicts[0]


@pytest.mark.parametrize("kind", RULES)
def test_kept(kind: Alignment) -> None:
    """CPUs of one core keep every alignment."""
    assert judged(RULES[kind], db(), machine()).outcome is Outcome.PASSED


@pytest.mark.parametrize("kind", RULES)
def test_not_asked_is_skipped(kind: Alignment) -> None:
    """Where no claim was promised it there is one line that says so."""
    verdict = judged(RULES[kind], claim_db(), machine())

    assert verdict.outcome is Outcome.SKIPPED
    assert kind in verdict.reason


@pytest.mark.parametrize(
    ("kind", "granted", "words"),
    [
        (Alignment.SMT, "2", "have only 2 of the core 2,6"),
        (Alignment.SMT, "2,6-7", "have only 7 of the core 3,7"),
        (Alignment.LLC, "1-2", "lie on 2 level 3 caches: 1, 2"),
        (Alignment.NUMA, "1-2", "lie on 2 NUMA nodes: 1, 2"),
        (Alignment.SOCKET, "0,7", "lie on 2 sockets: 0, 7"),
    ],
)
def test_broken(kind: Alignment, granted: str, words: str) -> None:
    """The negative control: what the kernel grants breaks the promise, though the promised set would keep it."""
    verdict = judged(RULES[kind], db(), machine(granted))

    assert verdict.outcome is Outcome.FAILED
    assert words in verdict.reason
    assert "granted before the window" in verdict.reason or kind is not Alignment.SMT


@pytest.mark.parametrize(("kind", "promised"), [(Alignment.SMT, "2"), (Alignment.NUMA, "2,4")])
def test_a_promise_that_is_not_aligned_fails(kind: Alignment, promised: str) -> None:
    """A plan that hands out what it must not is a failure, too."""
    assert judged(RULES[kind], db(promised), machine()).outcome is Outcome.FAILED


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("spoilt", [None, [], {}, "2,6", ["x"], [3], {"a": "1"}, {"0": 7}])
def test_an_unknown_machine_is_undecided(kind: Alignment, spoilt: object) -> None:
    """A topology that was not read, or that makes no sense, decides nothing."""
    found = with_topology(machine(), **{KEYS[kind]: spoilt})

    assert judged(RULES[kind], db(), found).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("name", ["files_before", "files_after"])
def test_an_unread_cpuset_is_undecided(kind: Alignment, name: str) -> None:
    """Without what the kernel granted at both ends nothing passes."""
    for files in ((), (db_files(cpus_effective=None),), (db_files(cpus_effective=cpus("")),)):
        assert judged(RULES[kind], db(), machine(**{name: files})).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("kind", RULES)
def test_a_cpu_that_the_topology_lacks_is_undecided(kind: Alignment) -> None:
    """CPU 9 is in no group: nothing can be said."""
    assert judged(RULES[kind], db("9"), machine("9")).outcome is Outcome.UNDECIDED


def test_a_set_that_was_in_force_for_a_while_counts() -> None:
    """A planned change of the set: each epoch must be aligned."""
    change = Transition(
        claim="db", what="cpus", start_at_ns=1, end_at_ns=2, cpus_before=cpus("1-2"), cpus_after=cpus("2,6")
    )

    assert judged(numa_alignment.RULE, db(), machine(transitions=(change,))).outcome is Outcome.FAILED


def test_caches_of_a_virtual_machine_are_skipped() -> None:
    """A guest's cache ids prove nothing, neither way; cores and nodes are judged."""
    found = machine("1-2", virtualization="kvm")

    verdict = judged(llc_alignment.RULE, db(), found)
    assert verdict.outcome is Outcome.SKIPPED
    assert "kvm" in verdict.reason
    assert judged(numa_alignment.RULE, db(), found).outcome is Outcome.FAILED


@pytest.mark.parametrize(("mems", "outcome"), [("1", "passed"), ("0", "failed"), ("0-1", "failed"), ("", "failed")])
def test_memory_lies_where_the_cpus_do(mems: str, outcome: str) -> None:
    """Promised memory nodes must be the CPUs' node."""
    assert judged(numa_alignment.RULE, db(mems=cpus(mems)), machine()).outcome.value == outcome


def stranger(owner: OwnerClass, cpu: int = 6) -> Intruder:
    return intruder(owner, cpu, total_ns=5_000_000, longest_ns=5_000_000, first_at_ns=0)


@pytest.mark.parametrize(
    ("owner", "outcome"),
    [
        (OwnerClass.FOREIGN_POD, "failed"),
        (OwnerClass.SYSTEM, "passed"),
        (OwnerClass.PERCPU_KTHREAD, "passed"),
        (OwnerClass.UNKNOWN, "undecided"),
    ],
)
def test_what_runs_on_the_cores(owner: OwnerClass, outcome: str) -> None:
    """A pod without a claim on a thread of the core is a violation; system tasks are not; unknown ones decide it."""
    verdict = judged(smt_alignment.RULE, db(), machine(intruders=(stranger(owner),)))

    assert verdict.outcome.value == outcome
    assert bool(verdict.offenders) is (outcome == "failed")


def test_a_neighbours_claim_on_the_sibling_fails() -> None:
    """The negative control: another pod's task on a thread of the core is named."""
    found = machine()
    found = replace(found, cpu_use=(*found.cpu_use, use("web", 6)))
    verdicts = smt_alignment.RULE(claim_set(db(), claim_web()), found)

    assert verdicts[0].outcome is Outcome.FAILED
    assert "web ran 1000.000 ms" in verdicts[0].reason
    assert verdicts[0].offenders[0].cpu == 6


def test_a_container_of_the_same_pod_is_no_stranger() -> None:
    """Exclusivity towards containers of the pod is another rule's business."""
    found = machine()
    found = replace(found, cpu_use=(*found.cpu_use, use("web", 6)))
    verdicts = smt_alignment.RULE(claim_set(db(), claim_web(pod="a")), found)

    assert all(verdict.outcome is not Outcome.FAILED for verdict in verdicts)


def test_no_switch_judged_is_undecided() -> None:
    """Without the ledger it is not known what used the siblings."""
    found = machine()
    found = replace(found, coverage=replace(found.coverage, switches_judged=0))

    assert judged(smt_alignment.RULE, db(), found).outcome is Outcome.UNDECIDED
