"""Maps as bytes, test runs of programs, and what the kernel says about programs.

Source: bpf(2), include/uapi/linux/bpf.h (``union bpf_attr``, ``struct bpf_prog_info``); test runs on a chosen CPU:
commit 1b4d60ec162f "bpf: Enable BPF_PROG_TEST_RUN for raw_tracepoint"; batches: commit aa2e93b8e58e "bpf: Add generic
support for update and delete batch ops" (Linux 5.6; ring buffers, which we need in any case, came with 5.8).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.host.bpf_syscalls import bpf, bpf_answer, object_info

_MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _MAP_LOOKUP_BATCH, _MAP_UPDATE_BATCH = 1, 2, 3, 24, 26
_BATCH = struct.Struct("=QQQQIIQQ")
_COUNT_AT = 32
"""Where ``union bpf_attr`` has the number of entries of a batch: the kernel writes there how many it has copied."""
_ENTRIES = 1024
"""Entries of a batch; more where one bucket has more."""
_TEST_RUN, _STATS = 10, 32
_RUN_ON_CPU = 1
BPF_ANY, BPF_NOEXIST = 0, 1
Buffer = ctypes.Array[ctypes.c_char]


def possible_cpus(text: str) -> int:
    """Return how many values a per-CPU map has: the highest possible CPU and all below (``0-7`` gives 8)."""
    return int(text.strip().replace(",", "-").split("-")[-1]) + 1


@dataclass(frozen=True, slots=True)
class _Run:
    """Room for so many entries of an array that are read in one call."""

    entries: int
    keys: Buffer
    values: Buffer
    words: memoryview
    """The values."""


class Map:
    """One map by file descriptor; keys and values are bytes, per-CPU values one after the other."""

    def __init__(self, fd: int, key_size: int, value_size: int, copies: int = 1) -> None:
        self.fd = fd
        self.key_size = key_size
        self.value_size = -(-value_size // 8) * 8 if copies > 1 else value_size
        self.copies = copies
        self._key = ctypes.create_string_buffer(key_size)
        self._value = ctypes.create_string_buffer(self.value_size * copies)
        self._words = memoryview(self._value).cast("B")[: self.value_size * copies // 8 * 8].cast("Q")
        self._lookup = self._attr()
        self._run = self._run_room(0)
        self._run_before, self._run_after = ctypes.create_string_buffer(key_size), ctypes.create_string_buffer(8)

    def _attr(self, flags: int = 0) -> bytes:
        places = ctypes.addressof(self._key), ctypes.addressof(self._value)
        return struct.pack("=IIQQQ", self.fd, 0, *places, flags)

    def lookup(self, key: bytes) -> bytes | None:
        """Return the value (all CPUs'), or ``None``."""
        self._key.raw = key
        try:
            bpf(_MAP_LOOKUP, self._attr())
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return self._value.raw

    def words(self, key: bytes) -> memoryview:
        """Return the value (all CPUs') as 64-bit words, without a copy: they are good until the next call.

        :raises OSError: ENOENT where there is none.
        """
        self._key.raw = key
        bpf(_MAP_LOOKUP, self._lookup)
        return self._words

    def run_words(self, first: int, entries: int) -> memoryview | None:
        """Return the values (all CPUs') of so many entries of an array, from ``first`` on, as 64-bit words, one after
        the other, in one call; they are good until the next. ``None``: this kernel has no batches for it (per-CPU
        arrays: since 5.13, commit f008d732ab18 "bpf: Add batched ops support for percpu array").
        """
        if self._run.entries < entries:
            self._run = self._run_room(entries)
        room, before = self._run, 0  # of no entry: the kernel begins with the first
        if first:
            self._run_before.raw, before = struct.pack("=I", first - 1), ctypes.addressof(self._run_before)
        places = (before, *map(ctypes.addressof, (self._run_after, room.keys, room.values)))
        code, written = bpf_answer(_MAP_LOOKUP_BATCH, _BATCH.pack(*places, entries, self.fd, 0, 0))
        # A kernel without batches for such a map leaves the number that was asked for.
        whole = not code and int.from_bytes(written[_COUNT_AT:][:4], sys.byteorder) == entries
        return room.words[: entries * self.value_size * self.copies // 8] if whole else None

    def _run_room(self, entries: int) -> _Run:
        size = self.value_size * self.copies * entries
        values = ctypes.create_string_buffer(size)
        words = memoryview(values).cast("B")[: size // 8 * 8].cast("Q")
        return _Run(entries, ctypes.create_string_buffer(self.key_size * entries), values, words)

    def update(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> bool:
        """Write a value; ``False`` if it exists and ``flags`` is :data:`BPF_NOEXIST`.

        :raises OSError: E2BIG where the map is full.
        """
        self._key.raw = key
        self._value.raw = value
        try:
            bpf(_MAP_UPDATE, self._attr(flags=flags))
        except OSError as error:
            if error.errno == errno.EEXIST:
                return False
            raise
        return True

    def zero(self, entries: int) -> None:
        """Write zeros into the first entries of an array, in one call."""
        keys = ctypes.create_string_buffer(struct.pack(f"={entries}I", *range(entries)), entries * 4)
        values = ctypes.create_string_buffer(entries * self.value_size)
        addresses = (ctypes.addressof(keys), ctypes.addressof(values))
        bpf(_MAP_UPDATE_BATCH, struct.pack("=QQQQIIQQ", 0, 0, *addresses, entries, self.fd, 0, 0))

    def delete(self, key: bytes) -> None:
        """Remove an entry; nothing happens where there is none."""
        self._key.raw = key
        try:
            bpf(_MAP_DELETE, struct.pack("=IIQ", self.fd, 0, ctypes.addressof(self._key)))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def keys(self) -> Iterator[bytes]:
        """Walk the keys of a hash map; entries made or removed meanwhile may or may not be met."""
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Walk keys with their values. Whole buckets are copied at a time: an entry may be deleted when it is met."""
        sizes = (self.key_size, self.value_size * self.copies)
        for count, *rows in self._batches():
            for index in range(count):
                key, value = (row[index * size : (index + 1) * size] for row, size in zip(rows, sizes, strict=True))
                yield bytes(key), bytes(value)

    def count(self) -> int:
        """Return how many entries a hash map has."""
        return sum(count for count, *_ in self._batches())

    def _batches(self) -> Iterator[tuple[int, memoryview, memoryview]]:
        """Yield entries as the kernel copies them: how many, keys, values."""
        entries = _ENTRIES
        cursor: ctypes.Array[ctypes.c_char] | None = None
        while True:
            keys = ctypes.create_string_buffer(self.key_size * entries)
            values = ctypes.create_string_buffer(self.value_size * self.copies * entries)
            after = ctypes.create_string_buffer(8)  # the number of a bucket
            places = (ctypes.addressof(cursor) if cursor else 0, *map(ctypes.addressof, (after, keys, values)))
            code, written = bpf_answer(_MAP_LOOKUP_BATCH, _BATCH.pack(*places, entries, self.fd, 0, 0))
            if code == errno.ENOSPC:
                entries *= 2
                continue
            if code not in (0, errno.ENOENT):  # the latter: there is nothing after these
                raise OSError(code, os.strerror(code))
            yield int.from_bytes(written[_COUNT_AT:][:4], sys.byteorder), memoryview(keys), memoryview(values)
            if code:
                return
            cursor = after


def run_program(fd: int, *args: int, cpu: int | None = None) -> None:
    """Run a raw-tracepoint program once with these arguments; with ``cpu`` in an interrupt of that CPU.

    :raises OSError: ENXIO where the CPU is offline.
    """
    context = struct.pack(f"={len(args)}Q", *args)
    buffer = ctypes.create_string_buffer(context, len(context))
    attr = struct.pack(
        "=IIIIQQIIIIQQII",
        *(fd, 0, 0, 0, 0, 0, 0, 0, len(context), 0, ctypes.addressof(buffer), 0),
        *((0, 0) if cpu is None else (_RUN_ON_CPU, cpu)),
    )
    bpf(_TEST_RUN, attr)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramInfo:
    """What the kernel says about a loaded program; run counters stand still unless statistics are on."""

    run_time_ns: int
    run_count: int
    missed_runs: int | None
    """``None``: this kernel does not count them."""


_RUN_COUNTERS = struct.Struct("=QQ")
_RUN_COUNTERS_AT, _MISSED_AT = 192, 208


def program_info(fd: int) -> ProgramInfo:
    """Read run statistics and skipped runs (``recursion_misses``) of a program.

    Source: commit 9ed9e9ba2337 "bpf: Count the number of times recursion was prevented" (Linux 5.12): kernels before it
    describe a program in fewer bytes.
    """
    info = object_info(fd)
    run_time, count = _RUN_COUNTERS.unpack_from(info, _RUN_COUNTERS_AT)
    missed = int.from_bytes(info[_MISSED_AT : _MISSED_AT + 8], sys.byteorder) if len(info) >= _MISSED_AT + 8 else None
    return ProgramInfo(run_time_ns=run_time, run_count=count, missed_runs=missed)


def enable_statistics() -> int:
    """Switch the kernel's run statistics on; they go off when the returned descriptor is closed."""
    return bpf(_STATS, struct.pack("=I", 0))
