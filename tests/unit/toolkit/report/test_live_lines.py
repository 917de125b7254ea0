"""Lines for people: complete, one per subject and cause, from differences of counters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.validators.evidence_builder import claim_set, evidence, use
from toolkit.model.claims import ClaimSet, ExclusivePolicy
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report.live_lines import Pending
from toolkit.timeline.ran import asked

MS = 1_000_000


def end(
    pending: Pending,
    claims: ClaimSet,
    seen: Evidence,
    layers: Iterable[Verdict] = (),
    kept: Iterable[Verdict] = (),
) -> None:
    """Let a window end of which the record has what ran outside, by the timeline."""
    pending.ended(claims, seen, asked(seen), layers, kept)


def escaped(threads: int, ms: int, **changes: object) -> Evidence:
    row = replace(use("db", 7), out_of_set_switches=threads, out_of_set_ns=ms * MS)
    rows = tuple(
        Offender(claim="db", tid=tid, comm="t", cpu=7, first_at_ns=0, total_ns=1, longest_ns=1, switches=1)
        for tid in range(threads)
    )
    return replace(evidence(cpu_use=(row,), offenders=rows), **changes)  # type: ignore[arg-type]


def test_one_line_sums_up_and_begins_anew() -> None:
    """Two looks at one window, then its end: what was said is not said again, and reporting does not end."""
    pending = Pending()
    assert pending.take_new(escaped(41, 12))
    assert pending.lines() == ("db: 41 threads on CPU 7, 12 ms outside its CPUs",)
    assert not pending.take_new(escaped(41, 12))
    assert pending.lines() == ()
    end(pending, claim_set(), escaped(1000, 512))
    assert pending.lines() == ("db: 1000 threads on CPU 7, 500 ms outside its CPUs",)
    assert pending.take_new(escaped(1, 3, start_monotonic_ns=99))
    assert pending.lines() == ("db: 1 thread on CPU 7, 3 ms outside its CPUs",)


def test_an_escape_over_many_cpus_is_one_line() -> None:
    """Times and threads of all CPUs are summed, and the CPUs are one list."""
    cpus = (1, *range(3, 131))
    rows = tuple(replace(use("db", cpu), out_of_set_switches=1, out_of_set_ns=MS) for cpu in cpus)
    offenders = tuple(
        Offender(claim="db", tid=cpu % 41, comm="t", cpu=cpu, first_at_ns=0, total_ns=1, longest_ns=1, switches=1)
        for cpu in cpus
    )
    pending = Pending()
    pending.take_new(evidence(cpu_use=(*rows, use("web", 0)), offenders=offenders))

    assert pending.lines() == ("db: 41 threads on CPUs 1,3-130, 129 ms outside its CPUs",)


def test_threads_without_a_name_are_counted_by_their_switches() -> None:
    """Where the kernel reported no thread the line says how often tasks were switched there."""
    pending = Pending()
    pending.take_new(replace(escaped(3, 2), offenders=()))

    assert pending.lines() == ("db: 3 switches on CPU 7, 2 ms outside its CPUs",)


def told(subject: str, outcome: Outcome, reason: str = "", **measures: str | float) -> Verdict:
    """A verdict about the layers of a node."""
    return Verdict(rule="layers-agree", subject=subject, outcome=outcome, reason=reason, measures=measures)


def test_drift_and_a_late_pool_have_a_line_each() -> None:
    """A difference of the layers by its last words; a pool that still has what is exclusive, and for how long."""
    pending = Pending()
    for text, lasted_ms in (("cri and cgroup differ", 4000.0), ("cri and cgroup differ: CPUs 2 against 0-7", 1500.0)):
        end(
            pending,
            claim_set(),
            evidence(cpu_use=(), offenders=(), intruders=()),
            (
                told("db", Outcome.FAILED, text),
                told("web", Outcome.PASSED, overlap_cpus="2-3", overlap_ms=lasted_ms),
                told("log", Outcome.PASSED, lag_ms=12.0),
            ),
        )

    assert pending.lines() == (
        "db: cri and cgroup differ: CPUs 2 against 0-7",
        "web: its pool still had CPUs 2-3, exclusive to others, for 4 s",
    )
    assert pending.lines() == ()


def test_each_rule_has_a_line_of_its_own() -> None:
    """A container whose CPUs drift and whose limit was written, too."""
    pending = Pending()
    limit = replace(told("db", Outcome.FAILED, "the memory limit was 1 bytes, promised 2"), rule="applied")
    drift = told("db", Outcome.FAILED, "cri and cgroup differ")
    end(pending, claim_set(), evidence(cpu_use=(), offenders=(), intruders=()), (drift, limit))

    assert pending.lines() == ("db: the memory limit was 1 bytes, promised 2", "db: cri and cgroup differ")


def intruder(cpu: int, tid: int, comm: str, ms: int, owner: OwnerClass) -> Intruder:
    """A task without a claim that ran for some milliseconds."""
    return Intruder(
        cpu=cpu, tid=tid, comm=comm, owner=owner, cgroup="", switches=1, total_ns=ms * MS, longest_ns=1, first_at_ns=0
    )


@pytest.mark.parametrize("policy", list(ExclusivePolicy))
def test_tasks_of_other_pods_are_named_on_all_cpus_of_a_claim(policy: ExclusivePolicy) -> None:
    """Whatever the policy says: one line for the claim, however many CPUs it has."""
    claims = replace(claim_set(), policy=policy)
    cpus = list(claims.exclusive_cpus)
    rows = tuple(intruder(cpu, cpu, "stress", 3, OwnerClass.FOREIGN_POD) for cpu in cpus)
    pending = Pending()
    end(pending, claims, evidence(cpu_use=(), offenders=(), intruders=rows))

    where = f"CPU{'s' if len(cpus) > 1 else ''} {claims.exclusive_cpus}"
    assert pending.lines() == (f"db: tasks of other pods on its {where}: stress {3 * len(cpus)} ms",)


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.UNDECIDED, Outcome.FAILED])
def test_tasks_of_other_pods_that_broke_nothing_are_no_line(outcome: Outcome) -> None:
    """A runtime enters a new container's cgroup before it is pinned: no verdict fails for it, and no line alarms."""
    claims = claim_set()
    rows = (intruder(claims.exclusive_cpus.first(), 7, "runc:[2:INIT]", 20, OwnerClass.FOREIGN_POD),)
    alone = Verdict(rule="exclusive-cpus", subject="db", outcome=outcome, reason="", measures={})
    pending = Pending()
    end(pending, claims, evidence(cpu_use=(), offenders=(), intruders=rows), kept=(alone,))

    assert len(pending.lines()) == (outcome is not Outcome.PASSED)


def test_the_top_system_tasks_on_exclusive_cpus_are_named() -> None:
    """By owner of the CPU; kernel threads are noise, and a pod's task is a violation with verdicts of its own."""
    claims = claim_set()
    cpu = claims.exclusive_cpus.first()
    rows = tuple(
        intruder(cpu, tid, comm, ms, owner)
        for tid, (comm, ms, owner) in enumerate(
            [
                ("sshd", 5, OwnerClass.SYSTEM),
                ("cron", 7, OwnerClass.SYSTEM),
                ("a", 1, OwnerClass.SYSTEM),
                ("b", 2, OwnerClass.SYSTEM),
                ("kworker", 99, OwnerClass.KTHREAD),
            ]
        )
    )
    pending = Pending()
    end(pending, claims, evidence(cpu_use=(), offenders=(), intruders=rows))

    assert pending.lines() == (f"db: system tasks on its CPU {cpu}: cron 7 ms, sshd 5 ms, b 2 ms and 1 more",)


def test_owners_of_exclusive_cpus_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a window of hundreds of claims, not once for each of them."""
    counts = list[int]()
    real = ClaimSet.exclusive_cpus

    def counted(claims: ClaimSet) -> CpuSet:
        counts.append(len(claims.claims))
        return real.__get__(claims)  # type: ignore[no-any-return]

    one = claim_set().claims[0]
    many = replace(claim_set(), claims=tuple(replace(one, name=f"c{number}") for number in range(50)))
    monkeypatch.setattr(ClaimSet, "exclusive_cpus", property(counted))
    end(Pending(), many, evidence())
    assert 0 < len(counts) <= 2
