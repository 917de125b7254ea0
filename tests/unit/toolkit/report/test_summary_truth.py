"""What the sentence says of a CPU set is what the evidence says: every name, every number, for any evidence."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.seeds import examples
from tests.unit.validators.evidence_builder import (
    CLEAN,
    POSITIVE,
    SECOND,
    claim_db,
    claim_set,
    coverage,
    cpus,
    evidence,
    intruder,
    use,
)
from toolkit.model.claims import Claim, ClaimSet, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CpuUse, Evidence, Intruder, OwnerClass
from toolkit.model.result import make_result
from toolkit.model.verdict import Outcome, Verdict
from toolkit.report.summary import summary
from validators.rules import cpuset_containment, exclusive_cpus, reserved_cpus
from validators.wording import milliseconds

POD = Isolation.POD
A = claim_db(name="db/a", cgroup="/kubepods/poda/a", isolation=POD)
B = claim_db(name="db/b", cgroup="/kubepods/poda/b", isolation=POD)
WEB = Claim(name="web", cgroup="/kubepods/podb/web", pod="b", cpus=cpus("0-1"))
PAUSE = Claim(name="pause", cgroup="/kubepods/podb/pause", pod="b", kind=SubjectKind.SANDBOX)
CLAIMS = claim_set(A, B, WEB, PAUSE)
CALLED = {
    OwnerClass.KTHREAD: "kernel threads",
    OwnerClass.PERCPU_KTHREAD: "kernel threads",
    OwnerClass.SYSTEM: "system tasks",
    OwnerClass.TOOLKIT: "pinproof itself",
}
"""Written down here again: one class has one name, and it is this."""


def said(found: Evidence, claims: ClaimSet = CLAIMS) -> str:
    """The sentence of rules that say which task was where, before the evidence is doubted."""
    verdicts = [v for rule in (cpuset_containment, reserved_cpus, exclusive_cpus) for v in rule.check(claims, found)]
    return summary(make_result(found, tuple(verdicts), unknown=None))


def guest(owner: OwnerClass, ns: int, cpu: int = 2) -> Intruder:
    return intruder(owner, cpu, cgroup="/", total_ns=ns, longest_ns=ns)


def test_containers_of_one_pod_share_its_cpus_and_both_are_named() -> None:
    """Two containers of a pod on the pod's CPUs: neither is alone there, and it is said once."""
    text = said(evidence(cpu_use=(use("db/a", 2), use("db/b", 3))))

    assert "exclusive CPUs 2-3 hosted only `db/a` and `db/b`" in text
    assert text.count("hosted") == 1


def test_a_claim_that_did_not_run_there_is_not_named() -> None:
    """`db/b` may use the CPUs but slept: the evidence names none but `db/a`, for both claims."""
    text = said(evidence(cpu_use=(use("db/a", 2),)))

    assert "hosted only `db/a`." in text
    assert "`db/b`" not in text


def test_no_task_at_all() -> None:
    """An idle machine: the CPUs hosted no task, not the claim's."""
    assert "hosted no task" in said(evidence(cpu_use=(use("web", 0),)))


def test_a_start_on_a_foreign_cpu_breaks_nothing_and_is_not_hidden() -> None:
    """Time of a transition is no fault; a sentence with "only" and "no" in it says that it was there."""
    moving = use("web", 2, switches=1, run_ns=900_000, samples=0, transition_switches=1, transition_ns=900_000)
    claims = replace(CLAIMS, reserved_cpus=cpus("2"), strict_reservation=True)
    text = said(evidence(cpu_use=(use("db/a", 3), use("web", 0), moving)), claims)

    assert "hosted only `db/a` and 0.9 ms of `web` before its present set held" in text
    assert "no task of `web` ran outside CPUs 0-1 (1 switch and 0.9 ms outside in transition)" in text
    assert "no workload ran on reserved CPU 2 but 0.9 ms of `web` before its present set held" in text


def test_without_a_pods_root_nothing_is_called_a_system_task() -> None:
    """A task without a claim may then be a pod's."""
    found = evidence(cpu_use=(use("db/a", 2),), intruders=(guest(OwnerClass.SYSTEM, 5_000_000),))

    assert "5.0 ms of tasks without a claim" in said(found, replace(CLAIMS, pods_root=None))
    assert "5.0 ms of system tasks" in said(found)


def test_canaries_that_had_to_run_on_an_exclusive_cpu() -> None:
    """Where every CPU has an owner pinproof's own controls run on one: they are named."""
    canaries = tuple(replace(one, cpu=2) for one in (POSITIVE, CLEAN))
    text = said(evidence(cpu_use=(use("db/a", 2),), canaries=canaries))

    assert "hosted only `db/a` and 100.0 ms of pinproof's canaries" in text


def test_what_was_lost_is_what_was_lost() -> None:
    """Skipped runs and full maps lose switches; "0 were lost" is not said beside them."""
    text = said(evidence(coverage=coverage(missed_runs=3, map_full=1)))

    assert "the kernel skipped 3 runs of the program, 1 counts were lost (map full)" in text
    assert "0 were lost" not in text


def test_a_claim_below_another() -> None:
    """The ledger counts tasks of the inner cgroup for the inner claim; they are the outer one's tasks all the same."""
    outer = claim_db(name="svc", cgroup="/svc", pod="")
    inner = Claim(name="svc/part", cgroup="/svc/part", cpus=cpus("2"))
    claims = claim_set(outer, inner)

    kept = said(evidence(cpu_use=(use("svc/part", 2),)), claims)
    assert "hosted only `svc/part`" in kept
    wide = claim_set(outer, replace(inner, cpus=cpus("0-3")))
    broken = cpuset_containment.check(wide, evidence(cpu_use=(use("svc", 2), use("svc/part", 0))))
    assert [verdict.outcome for verdict in broken] == [Outcome.FAILED, Outcome.PASSED]
    assert "svc/part below its cgroup ran 1000.000 ms on CPU 0 outside 2-3" in broken[0].reason


ROW = st.builds(
    lambda claim, cpu, ns, part: use(
        claim, cpu, switches=2, run_ns=ns, samples=0, transition_switches=2 * part, transition_ns=ns * part
    ),
    st.sampled_from([claim.name for claim in CLAIMS.claims]),
    st.integers(0, 3),
    st.integers(1, SECOND),
    st.sampled_from([0, 0, 1]),
)
GUEST = st.builds(guest, st.sampled_from(list(CALLED)), st.integers(1, SECOND), st.integers(0, 3))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROW, max_size=8, unique_by=lambda row: (row.claim, row.cpu)), st.lists(GUEST, max_size=6))
def test_every_name_and_number_is_the_evidences(rows: list[CpuUse], guests: list[Intruder]) -> None:
    """For any evidence whose verdict passes: names and times of the sentence equal sums made here from its rows."""
    found = evidence(cpu_use=tuple(rows), intruders=tuple(guests), thread_masks=())
    verdicts = exclusive_cpus.check(CLAIMS, found)
    foreign = [row for row in rows if row.claim == "web" and row.cpu in (2, 3) and not row.transition_ns]
    expected = Outcome.FAILED if foreign else Outcome.PASSED
    assert {v.outcome for v in verdicts} == {expected}
    for verdict in verdicts:
        if verdict.outcome is Outcome.PASSED:
            check(verdict, rows, guests)


def check(verdict: Verdict, rows: list[CpuUse], guests: list[Intruder]) -> None:
    times: dict[str, int] = defaultdict(int)
    names: set[str] = set()
    for row in rows:
        if row.cpu not in (2, 3):
            continue
        if row.claim in ("db/a", "db/b"):
            names.add(row.claim)
        elif row.transition_ns:
            times[f"`{row.claim}` before its present set held"] += row.run_ns
        else:
            times["pause sandboxes and runtime helpers"] += row.run_ns
    for one in guests:
        if one.cpu in (2, 3):
            times[CALLED[one.owner]] += one.total_ns
    text = str(verdict.measures["hosted"])
    told = {name: time for time, name in re.findall(r"([\d.e+]+ [mu]s) of (.+?)(?=, | and |$)", _split(text))}
    assert told == {_split(name): milliseconds(ns) for name, ns in times.items()}
    assert set(re.findall(r"(?:only |, |and )`([^`]+)`", text)) == names
    assert text in verdict.reason
    sentence = summary(make_result(evidence(), (verdict,), unknown=None))
    assert f"xclusive CPUs 2-3 {text}." in sentence


def _split(text: str) -> str:
    """One of the names has an "and" of its own."""
    return text.replace("sandboxes and runtime", "sandboxes & runtime")


@pytest.mark.parametrize("number", [1, 5, 9])
def test_many_claims(number: int) -> None:
    """Above four claims the sentence counts them, and does not call them containers or alone."""
    claims = [claim_db(name=f"c{i}", cgroup=f"/k/c{i}", pod=f"p{i}", cpus=CpuSet.of([i])) for i in range(number)]
    rows: Any = [use(claim.name, i) for i, claim in enumerate(claims)]
    text = said(evidence(cpu_use=tuple(rows)), claim_set(*claims))

    if number > 4:
        assert f"no task of {number} claims ran outside" in text.lower()
        assert f"the exclusive CPUs of {number} claims hosted no workload but their owners'" in text
    else:
        assert "exclusive CPU 0 hosted only `c0`" in text
