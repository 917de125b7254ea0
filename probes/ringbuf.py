"""Reads BPF ring buffers: the kernel's memory mapped here, record after record, without a library.

A record is a length with two flags, four bytes for the kernel, and the data, all in steps of eight bytes. The data
pages are mapped twice one after the other, so that a record that wraps around is one piece. Positions only grow.

Source: kernel/bpf/ringbuf.c (struct bpf_ringbuf, struct bpf_ringbuf_hdr); Documentation/bpf/ringbuf.rst.
"""

from __future__ import annotations

import mmap
import os
import select
import threading
import time
from collections.abc import Callable

from toolkit.host.bpf_syscalls import map_info

BUSY, DISCARD = 1 << 31, 1 << 30
HEADER_BYTES = 8


class RingBrokenError(Exception):
    """The ring's own bookkeeping makes no sense; everything in it was thrown away."""


class Ring:
    """One ring. :meth:`drain` and :meth:`close` come from one thread at a time.

    :param consumer: a page that we write: how far we have read.
    :param producer: a page that the kernel writes (how far it has written), and the data, twice.
    :param size: bytes of data, a power of two.
    """

    def __init__(self, consumer: mmap.mmap, producer: mmap.mmap, size: int, hear: Callable[[bytes], None]) -> None:
        self._maps, self._size, self._hear = (consumer, producer), size, hear
        self._position = memoryview(consumer).cast("B")[:8].cast("Q")
        view = memoryview(producer)
        self._produced = view[:8].cast("Q")
        self._data = view[mmap.PAGESIZE :]
        self._lengths = view[mmap.PAGESIZE :].cast("I")
        # The kernel writes data, then the length, then its position. Taking and giving back a lock keeps our reads in
        # order on processors that would turn them round.
        self._in_order = threading.Lock()
        self.held_up = False
        """The last reading ended before a record that was still being written: what was sent after it is unread."""

    @classmethod
    def of_map(cls, fd: int, hear: Callable[[bytes], None]) -> Ring:
        """Map a ring buffer by its descriptor."""
        size = map_info(fd).max_entries
        consumer = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        length = mmap.PAGESIZE + 2 * size
        producer = mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ, offset=mmap.PAGESIZE)
        return cls(consumer, producer, size, hear)

    def drain(self) -> int:
        """Hand over what was sent up to now, in order, up to a record that is still being written; returns how many.

        :raises RingBrokenError: a length that cannot be.
        """
        at, heard = self._position[0], 0
        self.held_up = False
        with self._in_order:
            end = self._produced[0]
        if not at <= end <= at + self._size:
            self._position[0] = end
            raise RingBrokenError(f"{end - at} bytes were written into a ring of {self._size}")
        while at != end:
            with self._in_order:
                length = self._lengths[(at & self._size - 1) >> 2]
            if length & BUSY:
                self.held_up = True
                break
            bytes_ = length & ~DISCARD
            step = (bytes_ + HEADER_BYTES + 7) // 8 * 8
            if step > end - at:
                self._position[0] = end
                raise RingBrokenError(f"a record of {bytes_} bytes at {at}, where {end - at} were written")
            if not length & DISCARD:
                start = (at & self._size - 1) + HEADER_BYTES
                self._hear(bytes(self._data[start : start + bytes_]))
                heard += 1
            at += step
            with self._in_order:
                self._position[0] = at
        return heard

    def close(self) -> None:
        """Unmap."""
        for view in (self._position, self._produced, self._lengths, self._data):
            view.release()
        for one in self._maps:
            # The views that the casts were made of are gone with the last reference to them.
            one.close()


class Rings:
    """Several rings, and waiting for the first that has something."""

    def __init__(self, wanted: dict[int, Callable[[bytes], None]]) -> None:
        self._rings = [Ring.of_map(fd, hear) for fd, hear in wanted.items()]
        self._poll = select.epoll()
        for fd in wanted:
            self._poll.register(fd, select.EPOLLIN)
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._bell, select.EPOLLIN)

    def wake(self) -> None:
        """End the wait, or the next one; may be called by any thread."""
        os.eventfd_write(self._bell, 1)

    def end_by(self, fd: int) -> Callable[[], None]:
        """Let a wait end once when there is something to read from a descriptor of another.

        :returns: what lets it end a wait once more: at once where there is something to read still. May be called by
            any thread, as long as the descriptor is open; one that is closed ends no wait.
        """
        self._poll.register(fd, select.EPOLLIN | select.EPOLLONESHOT)
        return lambda: self._poll.modify(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def wait(self, timeout_ms: int) -> int | None:
        """Wait until something was sent, and hand it over.

        :returns: the moment (CLOCK_MONOTONIC) up to which all that was sent has been handed over; ``None`` where
            :meth:`drain` returns ``False``.
        """
        if (self._bell, select.EPOLLIN) in self._poll.poll(timeout_ms / 1000):
            os.eventfd_read(self._bell)
        now_ns = time.monotonic_ns()
        return now_ns if self.drain() else None

    def drain(self) -> bool:
        """Hand over what was sent up to now; ``False`` where a CPU stands still in the middle of a record."""
        for ring in self._rings:
            ring.drain()
        return not any(ring.held_up for ring in self._rings)

    def close(self) -> None:
        """Unmap all."""
        self._poll.close()
        os.close(self._bell)
        for ring in self._rings:
            ring.close()
        self._rings.clear()
