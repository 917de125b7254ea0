"""Evidence that contradicts itself: no CPU runs anything for longer than the window, as far as its ends are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.validators.evidence_builder import (
    CLEAN,
    POSITIVE,
    WINDOW_NS,
    coverage,
    cpus,
    evidence,
    intruder,
    mask,
    use,
)
from tests.unit.validators.trust_builder import CLAIMS, by_key, health, healthy
from toolkit.model.blind_spots import ScanGap
from toolkit.model.evidence import Evidence, Joinings, OwnerClass, UsageBin
from toolkit.model.interrupts import IrqKind, IrqUse
from toolkit.model.placement import HugetlbUse, PageKind, PageReading, PageUse
from toolkit.model.verdict import Offender, Outcome
from validators.credibility.contradictions import contradictions
from validators.registry import judge

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("ran_ms", "skew_ms", "false"),
    [(7_000, 0, False), (7_090, 0, False), (7_294, 0, True), (7_294, 220, False), (7_400, 220, True)],
)
def test_nothing_runs_longer_than_the_window(ran_ms: int, skew_ms: int, false: bool) -> None:
    """The measured time that it took to end the window on all CPUs counts, on top of 1 % and 20 ms."""
    found = evidence(duration_ns=7 * SECOND, cpu_use=(use("db", 2, run_ns=ran_ms * 1_000_000),), bandwidth=())
    found = replace(found, coverage=replace(found.coverage, window_skew_ns=skew_ms * 1_000_000))

    told = contradictions(found)

    line = f"db ran {ran_ms * 1_000_000} ns on CPU 2 in a window of 7000000000 ns"
    assert told == ((line,) if false else ()), "one line, and none for the sum on the CPU that it spoils"


def test_a_sum_is_named_where_no_part_of_it_is_too_long() -> None:
    """Two claims that took the CPU in turn, each for less than the window."""
    found = evidence(
        duration_ns=7 * SECOND,
        cpu_use=(use("db", 2, run_ns=4 * SECOND), use("web", 2, run_ns=4 * SECOND)),
        bandwidth=(),
    )

    assert contradictions(found) == ("tasks ran 8000000000 ns on CPU 2 in a window of 7000000000 ns",)


def _irq(**changes: Any) -> dict[str, Any]:
    row = IrqUse(cpu=2, kind=IrqKind.SOFT, name="TIMER", vector=1, count=5, ns=900, longest_ns=300)
    return {"irq_use": (replace(row, **changes),)}


def _row(**changes: Any) -> dict[str, Any]:
    first, *others = healthy().cpu_use
    return {"cpu_use": (replace(first, **changes), *others)}


def _level(**changes: Any) -> dict[str, Any]:
    first, *others = healthy().bandwidth
    return {"bandwidth": (replace(first, **changes), *others)}


def _mask(**changes: Any) -> dict[str, Any]:
    return {"thread_masks": (mask("db", "2-3", **changes), *healthy().thread_masks[1:])}


def _stay(**changes: Any) -> dict[str, Any]:
    one = Offender(claim="db", tid=7, comm="db", cpu=2, first_at_ns=5, last_at_ns=9, total_ns=4, longest_ns=4)
    return {**_row(out_of_set_ns=4, out_of_set_switches=1), "offenders": (replace(one, **changes),)}


def _slot(**changes: Any) -> dict[str, Any]:
    one = UsageBin(claim="db", start_at_ns=0, length_ns=SECOND // 10, usage_ns=SECOND // 5)
    return {"usage_bins": (replace(one, **changes),)}


def _coverage(**changes: Any) -> dict[str, Any]:
    return {"coverage": coverage(**changes)}


def _machine(**changes: Any) -> dict[str, Any]:
    return {"environment": replace(healthy().environment, **changes)}


def _pages(**changes: Any) -> dict[str, Any]:
    page = PageUse(claim="db", kind=PageKind.ANON, node=0, total_bytes=4096, pid=9, comm="db", process_bytes=4096)
    return {"pages": (PageReading(claim="db", processes=1, unread=0, pages=(replace(page, **changes),)),)}


def _huge(**changes: Any) -> dict[str, Any]:
    return {"hugetlb": (HugetlbUse(claim="db", page_bytes=1 << 21, limit_bytes=0, **changes),)}


STORIES: list[Callable[..., dict[str, Any]]] = [_irq, _row, _level, _mask, _stay, _slot, _coverage, _pages, _huge]


@pytest.mark.parametrize("story", STORIES)
def test_what_can_be_is_no_contradiction(story: Callable[..., dict[str, Any]]) -> None:
    """Each story of the next test without the number that cannot be."""
    assert contradictions(healthy(**story())) == ()


def test_a_container_that_restarted_has_a_row_for_each_life() -> None:
    """Named tasks are outside as long as both rows say together."""
    rows = _stay(total_ns=SECOND)["offenders"]
    lives = tuple(use("db", 2, run_ns=SECOND, out_of_set_ns=SECOND // 2, out_of_set_switches=1) for _ in range(2))

    assert contradictions(healthy(cpu_use=lives, offenders=rows)) == ()


def test_lives_with_gaps_between_them_have_counters_of_less_time() -> None:
    """The ledger counted through the gaps, and a new life may have been read late: no number of them is a lie."""
    assert contradictions(healthy(**_level(lives=2, window_ns=SECOND // 10, bpf_usage_ns=3 * SECOND))) == ()
    assert contradictions(healthy(**_level(bpf_usage_ns=-1))) == ()


IMPOSSIBLE: list[dict[str, Any]] = [
    *(
        _row(**{name: -1})
        for name in (
            *("switches", "run_ns", "idle_wakes", "arrival_lag_ns", "departure_lag_ns", "samples", "standstill_ns"),
            *("out_of_set_switches", "out_of_set_ns", "out_of_set_longest_ns", "out_of_set_samples", "cuts"),
            *("transition_switches", "transition_ns"),
        )
    ),
    *(
        {"joinings": (replace(Joinings(claim="db", count=1, outside_ns=0, slowest_ns=0), **{name: -1}),)}
        for name in ("count", "outside_ns", "slowest_ns")
    ),
    {"joinings": (Joinings(claim="db", count=1, outside_ns=SECOND // 2, slowest_ns=SECOND),)},
    _row(standstill_ns=2 * SECOND),
    _row(out_of_set_ns=SECOND // 2, transition_ns=SECOND // 2 + SECOND // 10),
    _row(arrival_lag_ns=WINDOW_NS * 2),
    _row(departure_lag_ns=WINDOW_NS * 2),
    _row(idle_wakes=1001),
    _row(switches=0, idle_wakes=0, arrival_lag_ns=5),
    _row(out_of_set_samples=101),
    _row(samples=2100),
    _row(cpu=63),
    *(
        _level(**{name: -1})
        for name in (
            *("usage_ns", "nr_periods", "nr_throttled", "window_ns", "throttled_ns", "nr_bursts", "burst_ns"),
            *("system_ns", "unread_ns", "lives"),
        )
    ),
    _level(lives=0),
    _level(window_ns=WINDOW_NS * 100),
    _level(window_ns=1),
    _level(usage_ns=42 * SECOND),
    _level(bpf_usage_ns=42 * SECOND),
    _level(nr_periods=5, nr_throttled=8),
    _mask(first_at_ns=9, last_at_ns=8),
    _mask(times_seen=0),
    _stay(total_ns=-1),
    _stay(longest_ns=-1),
    _stay(switches=-1),
    _stay(last_at_ns=4),
    _stay(total_ns=SECOND),
    {"offenders": (Offender(claim="db", tid=7, comm="db", cpu=1, first_at_ns=5, total_ns=SECOND, longest_ns=4),)},
    {"bandwidth": (*healthy().bandwidth, replace(healthy().bandwidth[0], nr_throttled=0))},
    {"files_before": (*healthy().files_before, healthy().files_before[0])},
    {"files_after": (*healthy().files_after, replace(healthy().files_after[0], cgroup="/kubepods/poda/db/"))},
    _slot(length_ns=-1),
    _slot(usage_ns=-1),
    *(_irq(**{name: -1}) for name in ("count", "ns", "longest_ns")),
    _irq(ns=11 * SECOND),
    _irq(longest_ns=SECOND),
    _irq(count=0),
    {**_irq(count=5), **_coverage(softirqs_judged=6, softirqs_kernel=6)},
    {"intruders": (intruder(OwnerClass.SYSTEM, total_ns=-1),)},
    {"intruders": (intruder(OwnerClass.SYSTEM, longest_ns=-1),)},
    {"intruders": (intruder(OwnerClass.SYSTEM, switches=-1),)},
    {"intruders": (intruder(OwnerClass.SYSTEM, total_ns=WINDOW_NS),)},
    {"intruders": (intruder(OwnerClass.SYSTEM, cpu=63),)},
    *(
        _coverage(**{name: -1})
        for name in (
            *("switches_judged", "switches_kernel", "lost_events", "map_full", "missed_runs", "proc_scans"),
            *("sampler_hz", "file_readings", "file_gap_ns", "file_unwatched_ns", "softirqs_judged"),
            *(
                "softirqs_kernel",
                "cgroup_moves_dropped",
                "leaves_dropped",
                "affinity_changes_dropped",
                "control_writes_dropped",
            ),
        )
    ),
    _coverage(sampler_hz=0),
    _coverage(sampler_hz=4),
    _coverage(cpus_seen=cpus("0-3,63")),
    _coverage(switches_judged=2_000, switches_kernel=2_000),
    _coverage(positive_control_latency_ms=490.0),
    *(
        _coverage(scan_gaps=(replace(ScanGap(claim="db", scans=9, longest_ns=5, at_ns=0, allowed_ns=9), **{name: -1}),))
        for name in ("scans", "longest_ns", "allowed_ns")
    ),
    *(_machine(**{name: -1}) for name in ("hz", "bandwidth_slice_us", "idle_exit_us")),
    {"standstill_by_cpu_ns": {2: -1}},
    {"standstill_by_cpu_ns": {2: WINDOW_NS * 2}},
    *({"canaries": (replace(POSITIVE, **{name: -1}), CLEAN)} for name in ("out_of_set_switches", "out_of_set_ns")),
    {"canaries": (POSITIVE, replace(CLEAN, run_ns=-1))},
    {"canaries": (replace(POSITIVE, out_of_set_ns=SECOND), CLEAN)},
    _pages(total_bytes=-1),
    _pages(process_bytes=-1),
    _huge(usage_bytes=-1),
    _huge(failures=-1),
    _huge(node_bytes={0: -1}),
]


@pytest.mark.parametrize("found", IMPOSSIBLE, ids=[str(number) for number in range(len(IMPOSSIBLE))])
def test_numbers_that_cannot_be_are_false_evidence(found: dict[str, Any]) -> None:
    """No machine counts so: the evidence is proved wrong, and nothing passes by it."""
    spoilt: Evidence = healthy(**found)

    assert health(**found).outcome is Outcome.FAILED
    assert Outcome.PASSED not in by_key(judge(CLAIMS, spoilt)).values()
