"""Decoding of the ledger's records: bytes in, values out."""

from __future__ import annotations

import struct

import pytest

from probes import bpfsys
from probes.bpfsys import possible_cpus
from probes.records import comm, per_cpu
from probes.switches import records


def test_row_decodes_in_the_order_of_the_header() -> None:
    """Nineteen numbers, in the order of struct row."""
    row = records.Row.decode(struct.pack("=19Q", *range(19)))

    assert (row.switches, row.idle_wakes, row.out_switches, row.out_longest_ns, row.standstill_ns) == (0, 4, 8, 10, 16)
    assert (row.slotted_ns, row.slot, row.arrival_lag_ns, row.departure_lag_ns) == (2, 3, 5, 6)
    assert (row.wait_ns, row.slotted_wait_ns, row.migrations) == (7, 17, 18)


def test_offence_carries_the_name() -> None:
    """The 16 bytes of comm follow the numbers."""
    data = struct.pack("=6Q2I16s", 1, 2, 3, 4, 5, 5, 6, 7, b"db\0junk")

    assert comm(records.Offence.decode(data).comm) == "db"


def test_comm_of_16_bytes_and_of_bad_utf8() -> None:
    """A name without an end mark, or with bytes that are no text, is still a name."""
    assert (comm(b"0123456789abcdef"), comm(b"\xff\0")) == ("0123456789abcdef", "\\xff")


def test_per_cpu_values_are_cut_at_multiples() -> None:
    """One piece for each possible CPU."""
    assert per_cpu(b"aabbcc", 2) == [b"aa", b"bb", b"cc"]


def test_mask_is_little_endian_words() -> None:
    """CPU 0 is the first bit of the first word, CPU 1023 the last bit of the last."""
    data = records.encode_mask(1 | 1 << 1023, 1 << 64, 5, 6)

    words = struct.unpack("=34Q", data)
    assert (words[0], words[15], words[17], words[32], words[33]) == (1, 1 << 63, 1, 5, 6)
    assert len(data) == records.MASK_BYTES


def test_cpu_beyond_the_bitmap_is_refused() -> None:
    """CPU 1024 does not fit, and nothing is cut off silently."""
    with pytest.raises(OverflowError):
        records.encode_mask(1 << 1024, 0, 0, 0)


@pytest.mark.parametrize(("text", "count"), [("0\n", 1), ("0-7\n", 8), ("0-3,8-11", 12), ("0,64", 65)])
def test_possible_cpus_counts_up_to_the_highest(text: str, count: int) -> None:
    """Per-CPU maps have a value for every id up to the highest possible CPU."""
    assert possible_cpus(text) == count


@pytest.mark.parametrize(("known", "missed"), [(208, None), (216, 7), (256, 7)])
def test_skipped_runs_are_read_only_where_the_kernel_tells_them(
    monkeypatch: pytest.MonkeyPatch, known: int, missed: int | None
) -> None:
    """A kernel that describes a program in fewer bytes says nothing about them: that is not a zero."""
    info = bytearray(256)
    struct.pack_into("=QQQ", info, 192, 5, 6, 7)
    monkeypatch.setattr(bpfsys, "object_info", lambda _fd: bytes(info[:known]))

    found = bpfsys.program_info(3)

    assert (found.run_time_ns, found.run_count, found.missed_runs) == (5, 6, missed)
