"""From records to evidence rows: sums, maxima, settlement of undecided intervals."""

from __future__ import annotations

from probes import tally
from probes.joins import JoinLog
from probes.owners import PF_KTHREAD, PF_NO_SETAFFINITY, classify
from probes.records import IntruderSums, Offence, OffenceKey, Row
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import OwnerClass

IDLE = Row(*[0] * 12)
NOTHING = tally.Settled(violations={}, transitions={}, waiting=0)


def offence(ns: int, switches: int = 1, first: int = 100, ident: int = 1) -> Offence:
    return Offence(switches, ns, ns, first, first + ns, 7, 10, ident, b"x")


def test_cpus_without_anything_give_no_row() -> None:
    """Only CPUs on which the claim did something are listed."""
    rows = tally.cpu_use("db", 1, [IDLE, Row(2, 50, 1, 1, 10, 10, 0, 0, 1, 0, 1, 9)], NOTHING, CpuSet.of([1]))

    assert [(row.cpu, row.switches, row.run_ns, row.out_of_set_ns) for row in rows] == [(1, 2, 50, 10)]


def test_a_cpu_without_sampler_does_not_seem_to_stand_still() -> None:
    """No tick is due there: long intervals are what such CPUs are for."""
    rows = [Row(*[9] * 12), Row(*[9] * 12)]

    assert [row.standstill_ns for row in tally.cpu_use("db", 1, rows, NOTHING, CpuSet.of([1]))] == [0, 9]


def test_settled_intervals_are_added_to_their_class() -> None:
    """Undecided time becomes transition or out of set, of its own claim only."""
    key = OffenceKey(0, 3, 10, 0)
    settled = tally.Settled(
        violations={key: offence(5), OffenceKey(0, 4, 11, 0): offence(900, ident=2)},
        transitions={OffenceKey(0, 3, 12, 0): offence(7)},
        waiting=0,
    )

    (row,) = tally.cpu_use("db", 1, [Row(9, 100, 0, 1, 20, 20, 0, 0, 0, 0, 0, 0)], settled, CpuSet())

    assert (row.out_of_set_ns, row.out_of_set_switches, row.out_of_set_longest_ns) == (25, 2, 20)
    assert (row.transition_ns, row.transition_switches) == (7, 1)


def test_settle_without_word_of_joining_is_a_violation() -> None:
    """Nobody moved it in: it was there, outside."""
    settled = tally.settle({OffenceKey(0, 3, 10, 0): offence(5)}, JoinLog(), 10**12, 1)

    assert (len(settled.violations), len(settled.transitions), settled.waiting) == (1, 0, 0)


def test_epochs_of_one_window_are_summed() -> None:
    """Entries drained in several portions are one offender; other windows are told apart."""
    into: tally.Offences = {}
    tally.merge_offences(into, [(OffenceKey(2 << 8 | 1, 3, 10, 0), offence(5, first=300))])
    tally.merge_offences(into, [(OffenceKey(2 << 8 | 2, 3, 10, 0), offence(9, first=200))])

    (merged,) = into.values()
    assert (merged.ns, merged.switches, merged.longest_ns, merged.first_ns) == (14, 2, 9, 200)
    assert tally.in_window(2 << 8 | 255, 2)
    assert not tally.in_window(3 << 8, 2)


def test_offenders_are_named_worst_first_and_relative_to_the_window() -> None:
    """Unknown claims are left out; an interval that began before the window begins at 0."""
    entries = {
        OffenceKey(1, 3, 10, 0): offence(5, first=50),
        OffenceKey(1, 3, 11, 1): offence(9, first=400),
        OffenceKey(1, 9, 12, 1): offence(99, ident=77),
    }

    rows = tally.offenders((entries,), {1: "db"}, 100)

    assert [(row.tid, row.total_ns, row.first_at_ns) for row in rows] == [(11, 9, 300), (10, 5, 0)]


def test_owner_classes() -> None:
    """Kernel threads by flags, pods by their root, our own by pid, everybody else is system."""

    def sums(flags: int = 0, cpus: int = 2, in_pods: int = 0, tgid: int = 5) -> IntruderSums:
        return IntruderSums(1, 1, 1, 1, 1, 1, tgid, flags, cpus, in_pods, b"x")

    own = frozenset({5})
    assert classify(sums(PF_KTHREAD | PF_NO_SETAFFINITY, 1), own) is OwnerClass.PERCPU_KTHREAD
    assert classify(sums(PF_KTHREAD | PF_NO_SETAFFINITY, 2), own) is OwnerClass.KTHREAD
    assert classify(sums(PF_KTHREAD, 1), own) is OwnerClass.KTHREAD
    assert classify(sums(in_pods=1, tgid=9), own) is OwnerClass.FOREIGN_POD
    assert classify(sums(), own) is OwnerClass.TOOLKIT
    assert classify(sums(tgid=9), own) is OwnerClass.SYSTEM
