"""The ledger's rows: all claims' CPU time read in one call is what it is one by one."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import fields, replace

import pytest

from probes.bpfsys import Map
from probes.loaded import observing
from probes.switches.ledger import Ledger
from probes.switches.records import Row
from probes.switches.rows import Rows
from probes.switches.slots import SELDOM_NS
from tests.integration.apply_support import container, request
from tests.integration.probe_lab import wait_for
from toolkit.apply.sandbox import sandbox
from toolkit.host import limits
from toolkit.host.bpf_syscalls import bpf
from toolkit.model.claims import Claim, ClaimSet, SubjectKind
from toolkit.model.sandbox import WorkloadKind

pytestmark = pytest.mark.integration

_MAP_CREATE, _ARRAY, _PROGRAMS = 0, 2, 3
FIELDS = len(fields(Row))


@pytest.fixture(scope="module", autouse=True)
def any_map_may_be_made() -> None:
    """As loading the programs does: kernels before 5.11 charge maps to locked memory."""
    limits.widen()


@pytest.mark.parametrize("cpus", [1, 3, 64, 1024])
def test_all_slots_of_a_window(cpus: int) -> None:
    """Of either window, of the CPUs that were ever online; of many CPUs in more calls than one."""
    size, slots = Row.LAYOUT.size * cpus, 5
    table = Map(bpf(_MAP_CREATE, struct.pack("=IIIII", _ARRAY, 4, size, slots * 2, 0)), 4, size)
    try:
        for entry in range(slots * 2):
            first = entry * 100
            row = b"".join(Row.LAYOUT.pack(*range(first + cpu, first + cpu + FIELDS)) for cpu in range(cpus))
            table.update(struct.pack("=I", entry), row)
        for reach in {0, 1, cpus}:
            rows = Rows(table, slots)
            rows.reach(reach)
            for window in (6, 7):
                for asked in (0, 1, slots - 1, slots):
                    found = rows.all_ns(range(asked), window)
                    assert found == [rows.ns(slot, window) for slot in range(asked)], (reach, window, asked)
                    assert rows.all_ns({asked - 1} - {-1}, window) == found, "those below it, too"
                table.update(struct.pack("=I", (window & 1) * slots + slots - 2), bytes(size))
                some = (slots - 1, 0, slots - 2)
                assert rows.of_each(some, window) == [rows.of(slot, window) for slot in some]
                assert rows.of_each((), window) == []
    finally:
        os.close(table.fd)


def test_a_map_that_the_kernel_does_not_read_in_batches() -> None:
    """As a per-CPU array up to Linux 5.12, and an array of programs today: nothing was read, and zeros are no rows."""
    table = Map(bpf(_MAP_CREATE, struct.pack("=IIIII", _PROGRAMS, 4, 4, 8, 0)), 4, 4)
    try:
        assert table.run_words(0, 4) is None
        assert table.run_words(4, 4) is None
    finally:
        os.close(table.fd)


class _OneByOne(Map):
    """A map of a kernel that has no batches for it."""

    def run_words(self, first: int, entries: int) -> memoryview | None:
        return None


def test_rows_are_read_one_by_one_where_there_are_no_batches() -> None:
    """With the same result."""
    cpus, slots = 3, 5
    size = Row.LAYOUT.size * cpus
    table = _OneByOne(bpf(_MAP_CREATE, struct.pack("=IIIII", _ARRAY, 4, size, slots * 2, 0)), 4, size)
    try:
        for entry in range(slots * 2):
            row = b"".join(Row.LAYOUT.pack(*[entry * 100 + cpu] * FIELDS) for cpu in range(cpus))
            table.update(struct.pack("=I", entry), row)
        rows = Rows(table, slots)
        rows.reach(cpus)
        for window in (6, 7):
            first = (window & 1) * slots * 100
            assert rows.all_ns(range(slots), window) == [3 * (first + slot * 100) + 3 for slot in range(slots)]
            assert rows.of_each((4, 1), window) == [rows.of(4, window), rows.of(1, window)]
            assert rows.of(4, window)[2].switches == first + 402
    finally:
        os.close(table.fd)


def test_all_claims_of_a_real_window(ledger: Ledger) -> None:
    """A per-CPU map of the kernel: the rows of a window that has ended stand still."""
    with sandbox(request(container("db", WorkloadKind.PULSE)), run_id=f"rows-{os.getpid()}") as live:
        (place,) = [one.cgroup for one in live.value.containers]
        with observing(ClaimSet(claims=(Claim(name="db", cgroup=place),)), ledger=ledger) as observer:
            observer.open_window()
            window = observer._window().number
            observer.poll(0.5)
            evidence = observer.close_window()
            found = ledger.rows.all_ns([2], window)
            assert found == [ledger.rows.ns(slot, window) for slot in range(3)]
    assert max(found) > 0
    assert any(row.usage_ns for row in evidence.usage_bins)


def test_slots_are_short_from_when_a_quota_is_promised(ledger: Ledger) -> None:
    """Where none is promised no rule judges them."""
    with sandbox(request(container("db", WorkloadKind.PULSE)), run_id=f"slots-{os.getpid()}") as live:
        (place,) = [one.cgroup for one in live.value.containers]
        claim = Claim(name="db", cgroup=place)
        with observing(ClaimSet(claims=(claim,)), ledger=ledger) as observer:
            observer.open_window()

            def slots() -> list[int]:
                return [row.length_ns for row in observer.snapshot().usage_bins]

            wait_for(lambda: bool(slots()), "a slot that no rule judges")
            assert min(slots()) >= SELDOM_NS
            observer.promise(replace(claim, quota_us=50_000))
            wait_for(lambda: min(slots()) < SELDOM_NS, "a slot of a promised bandwidth")
            observer.close_window()


def test_the_kernels_slots_hold_what_was_run_in_them(ledger: Ledger) -> None:
    """All of it, each as long as the options say but for the first and the last, and none with more than there was."""
    busy = (container("db", WorkloadKind.SPIN, quota_us=50_000), container("web", WorkloadKind.FORK_STORM))
    with sandbox(request(*busy), run_id=f"spread-{os.getpid()}") as live:
        claims = (
            *(Claim(name=one.claim, cgroup=one.cgroup, quota_us=50_000) for one in live.value.containers),
            Claim(name="pod", cgroup=live.value.containers[0].cgroup.rpartition("/")[0], kind=SubjectKind.POD),
        )
        with observing(ClaimSet(claims=claims), ledger=ledger) as observer:
            observer.open_window()
            deadline = time.monotonic() + 7.0  # three readings, of which the last is at the end
            while time.monotonic() < deadline:
                observer.poll(0.5)
            evidence = observer.close_window()
    slot_ns = observer.options.bin_ms * 1_000_000
    cpus, late_ns = len(os.sched_getaffinity(0)), 1_500_000_000 // observer.options.sampler_hz
    ran = {name: sum(row.run_ns for row in evidence.cpu_use if row.claim == name) for name in ("db", "web")}
    slots = {name: [row for row in evidence.usage_bins if row.claim == name] for name in (*ran, "pod")}
    assert min(ran.values()) > 0
    assert {name: sum(row.usage_ns for row in slots[name]) for name in slots} == {**ran, "pod": sum(ran.values())}
    for row in slots["db"][1:-1]:
        assert row.length_ns == slot_ns or not row.usage_ns, row
        assert row.usage_ns <= (slot_ns + late_ns) * cpus, row
    assert len(slots["db"]) >= 50
