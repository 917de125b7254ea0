"""Memory of a ring buffer that a test writes as the kernel does, with a real reader."""

from __future__ import annotations

import mmap
import struct

from probes.ringbuf import Ring

SIZE = 2 * mmap.PAGESIZE


class Kernel:
    """The writing side: positions that only grow, and data that is seen twice, one behind the other."""

    def __init__(self) -> None:
        self.consumer = mmap.mmap(-1, mmap.PAGESIZE)
        self.producer = mmap.mmap(-1, mmap.PAGESIZE + 2 * SIZE)
        self.heard: list[bytes] = []
        self.ring = Ring(self.consumer, self.producer, SIZE, self.heard.append)
        self.at = 0

    def poke(self, position: int, data: bytes) -> None:
        for offset, byte in enumerate(data):
            place = mmap.PAGESIZE + (position + offset) % SIZE
            self.producer[place] = self.producer[place + SIZE] = byte

    def send(self, data: bytes, flags: int = 0, length: int | None = None) -> int:
        """Write a record and return where it is; ``length``: what its header says instead of the truth."""
        begin = self.at
        said = len(data) if length is None else length
        self.poke(begin, struct.pack("=II", said | flags, 0) + data)
        self.at += (len(data) + 15) // 8 * 8
        self.producer[:8] = struct.pack("=Q", self.at)
        return begin

    def read_up_to(self) -> int:
        return struct.unpack("=Q", self.consumer[:8])[0]
