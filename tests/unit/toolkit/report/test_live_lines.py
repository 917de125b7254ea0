"""Lines for people: complete, one per subject and CPU, from differences of counters."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.validators.evidence_builder import claim_set, evidence, use
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.verdict import Offender
from toolkit.report.live_lines import Pending

MS = 1_000_000


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
    assert pending.look(escaped(41, 12))
    assert pending.lines() == ("db: 41 threads on CPU 7, 12 ms outside its CPUs",)
    assert not pending.look(escaped(41, 12))
    assert pending.lines() == ()
    pending.ended(claim_set(), escaped(1000, 512))
    assert pending.lines() == ("db: 1000 threads on CPU 7, 500 ms outside its CPUs",)
    assert pending.look(escaped(1, 3, start_monotonic_ns=99))
    assert pending.lines() == ("db: 1 thread on CPU 7, 3 ms outside its CPUs",)


def test_the_top_system_tasks_on_exclusive_cpus_are_named() -> None:
    """By owner of the CPU; kernel threads are noise, and a pod's task is a violation with verdicts of its own."""
    claims = claim_set()
    cpu = claims.exclusive_cpus.first()
    rows = tuple(
        Intruder(
            cpu=cpu,
            tid=tid,
            comm=comm,
            owner=owner,
            cgroup="",
            switches=1,
            total_ns=ms * MS,
            longest_ns=1,
            first_at_ns=0,
        )
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
    pending.ended(claims, evidence(cpu_use=(), offenders=(), intruders=rows))

    assert pending.lines() == (f"db: system tasks on its CPU {cpu}: cron 7 ms, sshd 5 ms, b 2 ms and 1 more",)
