"""What bound at a moment that is over."""

from __future__ import annotations

from probes.switches.published import Bound, Published
from toolkit.model.cpuset import EMPTY, CpuSet


def test_a_moment_has_the_set_that_was_published_last_before_it() -> None:
    """A later set does not bind backwards; what forget_before keeps is what bound then."""
    published = Published()
    for at_ns, cpu in ((100, 1), (200, 2), (300, 3)):
        published.claim(7, Bound(at_ns=at_ns, cpus=CpuSet.of([cpu])))

    def at(at_ns: int) -> str:
        bound = published.of(7, at_ns)
        return "" if bound is None else str(bound.cpus)

    assert [at(ns) for ns in (150, 200, 299, 1000)] == ["1", "2", "2", "3"]
    assert at(50) == "1"  # the claim existed a moment before this side noted it
    published.forget_before(250)
    assert [at(ns) for ns in (250, 300)] == ["2", "3"]
    assert published.of(8, 150) is None


def test_no_cpu_is_watched_before_the_first_watch() -> None:
    """Before it no CPU was."""
    published = Published()
    published.watch(CpuSet.of([1]), 100)

    assert published.watched(99) == EMPTY
    assert published.watched(100) == CpuSet.of([1])


def test_time_outside_binds_from_the_end_of_a_change_only_where_the_old_set_was() -> None:
    """CPUs of the old set are tolerated up to the end of the change; others from the claim's begin on are not."""
    bound = Bound(at_ns=0, cpus=CpuSet.of([0]), since_ns=10, grace=CpuSet.of([1]), grace_until_ns=50)

    assert (bound.binds_from(1), bound.binds_from(2)) == (50, 10)
