"""The ring buffer reader against memory that this test writes as the kernel does, and as it never should."""

from __future__ import annotations

import os
import random
import struct
import threading
import time

import pytest

from probes.ringbuf import BUSY, DISCARD, RingBrokenError, Rings
from tests.unit.probes.ring_memory import SIZE, Kernel


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def test_records_come_in_order_across_many_turns_of_the_ring(kernel: Kernel) -> None:
    """Every record arrives once and whole, those that wrap around too, and the kernel is told how far we are."""
    choose = random.Random(7)
    sent = []
    for _ in range(3000):
        sent.append(choose.randbytes(choose.randrange(0, 200)))
        kernel.send(sent[-1])
        if choose.random() < 0.1:
            kernel.ring.drain()
            assert kernel.read_up_to() == kernel.at
    kernel.ring.drain()
    assert kernel.heard == sent
    assert kernel.at > 10 * SIZE


def test_discarded_records_are_skipped_and_busy_ones_waited_for(kernel: Kernel) -> None:
    """What a program took back is passed over; what it still writes, and everything behind it, is left for later."""
    kernel.send(b"first")
    kernel.send(b"taken back", DISCARD)
    busy = kernel.send(b"later", BUSY)
    kernel.send(b"last")
    assert kernel.ring.drain() == 1
    assert (kernel.heard, kernel.read_up_to()) == ([b"first"], busy)
    assert kernel.ring.held_up
    assert kernel.ring.drain() == 0
    kernel.poke(busy, struct.pack("=I", len(b"later")))
    kernel.ring.drain()
    assert (kernel.heard, kernel.ring.held_up) == ([b"first", b"later", b"last"], False)


@pytest.mark.parametrize("length", [100, SIZE, DISCARD - 1, (DISCARD - 1) | DISCARD])
def test_a_forged_length_is_said_and_the_ring_goes_on(kernel: Kernel, length: int) -> None:
    """A length beyond what was written: nothing is read there, the error is raised once, later records arrive."""
    kernel.send(b"good")
    kernel.send(b"bad", length=length)
    with pytest.raises(RingBrokenError):
        kernel.ring.drain()
    kernel.send(b"again")
    kernel.ring.drain()
    assert kernel.heard == [b"good", b"again"]


@pytest.mark.parametrize("position", [8, 1 << 63, (1 << 64) - 8])
def test_a_forged_position_is_said(kernel: Kernel, position: int) -> None:
    """A position of the kernel's that cannot be ends in the error, not in a fault."""
    kernel.send(b"good")
    kernel.ring.drain()
    kernel.producer[:8] = struct.pack("=Q", position)
    with pytest.raises(RingBrokenError):
        kernel.ring.drain()


def test_it_lets_go_of_its_memory(kernel: Kernel) -> None:
    """After the end the mappings are gone."""
    kernel.send(b"one")
    kernel.ring.drain()
    kernel.ring.close()
    assert (kernel.consumer.closed, kernel.producer.closed) == (True, True)


def test_a_wait_ends_when_it_is_asked_to() -> None:
    """By another thread, once; asked before it begins it ends at once, too."""
    rings = Rings({})
    try:
        began_s = time.monotonic()
        threading.Timer(0.05, rings.wake).start()
        assert rings.wait(240_000)
        rings.wake()
        assert rings.wait(240_000)
        assert time.monotonic() - began_s < 120.0
        assert rings.wait(1)
    finally:
        rings.close()


def test_a_wait_ends_by_what_another_descriptor_has_once_until_it_is_asked_for_again() -> None:
    """Its reader may be slow: a wait does not end again and again until then."""
    rings = Rings({})
    own = os.eventfd(0)
    try:
        again = rings.end_by(own)
        threading.Timer(0.05, os.eventfd_write, (own, 1)).start()
        began_s = time.monotonic()
        rings.wait(240_000)
        assert [fd for fd, _ in rings._poll.poll(0)] == []
        os.eventfd_write(own, 1)
        assert rings._poll.poll(0) == []
        again()
        rings.wait(240_000)
        assert time.monotonic() - began_s < 120.0
        os.close(own)
        assert rings.wait(1)
    finally:
        rings.close()
