"""From records to evidence rows: sums and maxima."""

from __future__ import annotations

from probes.switches import tally
from probes.switches.owners import PF_KTHREAD, classify
from probes.switches.records import LEFT_VISIT, PODS_IDENT, IntruderKey, IntruderSums, Offence, OffenceKey
from toolkit.host.procfs import PF_NO_SETAFFINITY
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import OwnerClass

IDLE = tally.row({})


def offence(ns: int, switches: int = 1, first: int = 100, comm: bytes = b"x") -> Offence:
    return Offence(switches, ns, ns, first, first + ns, first + ns, 7, 0, comm)


def test_cpus_without_anything_give_no_row() -> None:
    """Only CPUs on which the claim did something are listed."""
    rows = tally.cpu_use(
        "db",
        [IDLE, tally.row({"switches": 2, "ns": 50, "out_switches": 1, "out_ns": 10, "samples": 1, "standstill_ns": 9})],
        CpuSet.of([1]),
    )

    assert [(row.cpu, row.switches, row.run_ns, row.out_of_set_ns) for row in rows] == [(1, 2, 50, 10)]


def test_a_cpu_without_sampler_does_not_seem_to_stand_still() -> None:
    """No tick is due there: long intervals are what such CPUs are for."""
    rows = [tally.row({"ns": 9, "standstill_ns": 9})] * 2

    assert [row.standstill_ns for row in tally.cpu_use("db", rows, CpuSet.of([1]))] == [0, 9]


def test_sums_of_two_rows_keep_the_longer_longest() -> None:
    """What user space cut is added to what the program counted."""
    counted = tally.row({"switches": 9, "ns": 100, "out_switches": 1, "out_ns": 20, "out_longest_ns": 20})
    row = tally.sum_rows(counted, tally.row({"out_ns": 5, "out_longest_ns": 5}))

    assert (row.out_ns, row.out_switches, row.out_longest_ns, row.ns) == (25, 1, 20, 100)


def test_epochs_of_one_window_are_summed() -> None:
    """Entries drained in several portions are one offender; other windows are told apart."""
    into: tally.Offences = {}
    tally.merge_offences(into, [(OffenceKey(2 << 8 | 1, 3, 10, 0), offence(5, first=300, comm=b"late"))])
    tally.merge_offences(into, [(OffenceKey(2 << 8 | 2, 3, 10, 0), offence(9, first=200, comm=b"early"))])

    (merged,) = into.values()
    assert (merged.ns, merged.switches, merged.longest_ns, merged.first_ns) == (14, 2, 9, 200)
    assert merged.comm == b"late"
    assert tally.in_window(2 << 8 | 255, 2)
    assert not tally.in_window(3 << 8, 2)
    assert tally.in_window(0x102 << 8, 0x102)
    assert tally.in_window(2 << 8, 0x1000002), "an epoch has 24 bits of the window"


def test_offenders_are_named_worst_first_and_relative_to_the_window() -> None:
    """Unknown claims are left out; an interval that began before the window begins at 0."""
    entries = {
        OffenceKey(0, 1, 10, 0): offence(5, first=50),
        OffenceKey(0, 1, 11, 1): offence(9, first=400),
        OffenceKey(0, 77, 12, 1): offence(99),
    }

    rows = tally.offenders(entries, {1: "db"}, 100)

    assert [(row.tid, row.total_ns, row.first_at_ns) for row in rows] == [(11, 9, 300), (10, 5, 0)]


def test_a_thread_id_that_is_used_twice_is_two_tasks() -> None:
    """The second task is not charged with what the first one did."""
    entries = {OffenceKey(0, 1, 10, 0, life): offence(5, comm=comm) for life, comm in enumerate((b"first", b"second"))}

    assert [row.comm for row in tally.offenders(entries, {1: "db"}, 0)] == ["first", "second"]


def test_owner_classes() -> None:
    """Kernel threads by flags, pods by their root, our own by pid, all others are system."""

    def sums(flags: int = 0, cpus: int = 2, ident: int = 0, tgid: int = 5) -> IntruderSums:
        return IntruderSums(1, 1, 1, 1, 1, 1, tgid, flags, cpus, ident, b"x")

    own = 5
    assert classify(sums(PF_KTHREAD | PF_NO_SETAFFINITY, 1), own) is OwnerClass.PERCPU_KTHREAD
    assert classify(sums(PF_KTHREAD | PF_NO_SETAFFINITY, 2), own) is OwnerClass.KTHREAD
    assert classify(sums(PF_KTHREAD, 1), own) is OwnerClass.KTHREAD
    assert classify(sums(ident=PODS_IDENT, tgid=9), own) is OwnerClass.FOREIGN_POD
    assert classify(sums(ident=1, tgid=9), own) is OwnerClass.CLAIM
    assert classify(sums(), own) is OwnerClass.TOOLKIT
    assert classify(sums(tgid=9), own) is OwnerClass.SYSTEM


def test_a_task_that_left_is_still_of_what_it_left() -> None:
    """A claim's task outside is the claim's, an unclaimed pod's a pod's; a visitor is what it was before it came."""
    sums = IntruderSums(1, 1, 1, 1, 1, 1, 9, 0, 2, 0, b"x")

    def of(origin: int, left: int) -> OwnerClass:
        return classify(sums, 5, IntruderKey(0, 1, 9, 0, 1, origin, left))

    assert of(1, 9) is OwnerClass.CLAIM
    assert of(PODS_IDENT, 9) is OwnerClass.FOREIGN_POD
    assert of(1, 9 | LEFT_VISIT) is OwnerClass.SYSTEM
    row = tally.intruder(IntruderKey(0, 1, 9, 0, 1, 1, 9 | LEFT_VISIT), sums, OwnerClass.SYSTEM, "/", 0, "db")
    assert (row.claim, row.left, row.visit) == ("db", 9, True)
