"""The node's own decoders: steal, waits, hotplug, what we cost, and threads that the kernel hides. No kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from probes.node.decoder import CpuReading, OwnEdge, OwnReading, hidden_spots
from probes.node.untraced import Hidden, Untraced
from probes.readings import Readings
from tests.unit.probes.readings import FRAME, SYSTEM, THREADS
from toolkit.model.blind_spots import EVERY_WITNESS, Witness
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.node import (
    HotplugEvidence,
    OwnCoverage,
    OwnEvidence,
    SystemCoverage,
    SystemEvidence,
    WaitEvidence,
)

BOTH = (Witness.SWITCHES, Witness.SYSTEM_TASKS)


def test_the_kernels_count_lies_between_the_readings_around_the_moment() -> None:
    """At least 1,100 - 102, at most 1,105 - 100, both kept: the larger holds the window; steal by difference.

    CPU 2 came while the window was open: what it lost before is not known, so none of it is said.
    """
    part = SYSTEM.decode(Readings(FRAME, (THREADS,)))

    assert part.coverage == SystemCoverage(
        switches_kernel=1_005, switches_kernel_least=998, switches_skew=8, switches_untraced=0
    )
    assert part.evidence == SystemEvidence(steal_ns=4, steal_by_cpu_ns={0: 3, 1: 1})


def test_waits_are_of_claims_that_were_read() -> None:
    """A thread that came meanwhile counts whole; a claim of another window is left out."""
    reading = replace(THREADS, last={**THREADS.last, "gone": {9: 5}})

    assert reading.decode(Readings(FRAME, ())).evidence == WaitEvidence(run_delay_ns={"db": 15 + 4})


def test_what_we_cost_is_the_difference() -> None:
    """Without the kernel's statistics the programs' time is not known, which is not none."""
    first, last = (
        OwnEdge(process_ns=10, bpf_ns=7, missed=2, missed_before=2),
        OwnEdge(process_ns=30, bpf_ns=9, missed=2),
    )
    part = OwnReading(first=first, last=last).decode(Readings(FRAME, ()))
    silent = OwnReading(first=first, last=replace(last, bpf_ns=7)).decode(Readings(FRAME, ()))

    assert part.evidence == OwnEvidence(toolkit_cpu_ns=20, bpf_run_ns=2)
    assert part.coverage == OwnCoverage(missed_runs=0)
    assert silent.evidence == OwnEvidence(toolkit_cpu_ns=20, bpf_run_ns=None)


def test_lost_hotplug_events_are_a_doubt_of_everything() -> None:
    """A CPU of which nothing was heard has counted nowhere."""
    part = CpuReading(lapses=("events were lost",)).decode(Readings(FRAME, ()))

    assert part.evidence == HotplugEvidence(hotplug=())
    assert [spot.witnesses for spot in part.spots] == [EVERY_WITNESS]


@pytest.mark.parametrize(
    ("thread", "weak"),
    [
        (Hidden(name="far", cpus=CpuSet.parse("0"), cgroup="/"), ()),
        (Hidden(name="near", cpus=CpuSet.parse("0-1"), cgroup="/system"), (Witness.SYSTEM_TASKS,)),
        (Hidden(name="like", cpus=CpuSet.parse("1"), cgroup="/podsmore"), (Witness.SYSTEM_TASKS,)),
        (Hidden(name="pod", cpus=CpuSet.parse("1"), cgroup="/pods/x"), BOTH),
        (Hidden(name="gone"), BOTH),
    ],
    ids=lambda value: value.name if isinstance(value, Hidden) else "",
)
def test_a_hidden_thread_weakens_what_it_may_have_been(thread: Hidden, weak: tuple[Witness, ...]) -> None:
    """Nothing where no watched CPU is its; a foreign pod's task if it is, or may have been, below the pods' root."""
    (spot,) = hidden_spots(Untraced(switches=2, skew=0, threads=(thread,)), replace(FRAME, pods_root="/pods"))

    assert spot.witnesses == weak
    assert spot.cpus == (FRAME.watched if weak else None)
