"""A process with a vhost worker, as an emulator has for each device: what makes the device is its owner.

``vhost.py CPU`` runs on that CPU, makes a vsock device and writes a line ``{"pid", "tid", "tgid"}``: itself, its
worker, and the worker's process. For each line ``CPU ROUNDS`` it pins the worker, lets it work, and answers with
``{"ran_ns", "answers"}``: the worker's own time on CPUs meanwhile, by the kernel's ``schedstat``, and how many packets
it delivered. A round is a ring full of packets to a port where nothing listens: the worker reads each, and writes a
reset into the other ring. It ends with its input. Standard library only.
Source: include/uapi/linux/vhost.h, virtio_ring.h, virtio_vsock.h; kernel/vhost_task.c (a thread of the owner since
Linux 6.4), drivers/vhost/vhost.c of 6.1 (``vhost_dev_set_owner``: a kernel thread in the owner's cgroups).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path

SET_OWNER, SET_FEATURES, SET_MEM_TABLE = 0xAF01, 0x4008AF00, 0x4008AF03
RING_SIZE, RING_ADDRESS, RING_BASE, RING_KICK, RING_CALL = 0x4008AF10, 0x4028AF11, 0x4008AF12, 0x4008AF20, 0x4008AF21
SET_CID, SET_RUNNING = 0x4008AF60, 0x4004AF61
VERSION_1 = 1 << 32
MAY_WRITE = 2
"""VRING_DESC_F_WRITE: a buffer that the worker fills."""
HOST_CID = 2
ENTRIES, PACKET = 64, 64
REQUEST = struct.pack("<QQIIIHHIII", os.getpid(), HOST_CID, 1000, 1, 0, 1, 1, 0, 4096, 0)
"""struct virtio_vsock_hdr: VIRTIO_VSOCK_OP_REQUEST of a stream, from this process as a guest to port 1 of the host."""
TO_OWNER, TO_WORKER = 0, 1
"""The rings of a vsock device: what its owner receives, and what it sends."""
RING_BYTES = 16384
PATIENCE_S = 30


class Ring:
    """A split virtqueue in shared memory: descriptors, what is offered, what was used, and a buffer for each."""

    def __init__(self, memory: mmap.mmap, base: int, number: int, device: int) -> None:
        self._memory, self._at = memory, number * RING_BYTES
        self._offered = self._at + 16 * ENTRIES
        self._used = self._at + 4096
        self._kick = os.eventfd(0)
        self.done = 0
        for entry in range(ENTRIES):
            where = self._at + 8192 + entry * PACKET
            flags = MAY_WRITE if number == TO_OWNER else 0
            length = PACKET if number == TO_OWNER else len(REQUEST)
            struct.pack_into("<QIHH", memory, self._at + 16 * entry, where, length, flags, 0)
            struct.pack_into("<H", memory, self._offered + 4 + 2 * entry, entry)
            memory[where : where + len(REQUEST)] = REQUEST
        fcntl.ioctl(device, RING_SIZE, struct.pack("<II", number, ENTRIES))
        fcntl.ioctl(device, RING_BASE, struct.pack("<II", number, 0))
        addresses = (base + self._at, base + self._used, base + self._offered, 0)
        fcntl.ioctl(device, RING_ADDRESS, struct.pack("<II4Q", number, 0, *addresses))
        fcntl.ioctl(device, RING_KICK, struct.pack("<Ii", number, self._kick))
        fcntl.ioctl(device, RING_CALL, struct.pack("<Ii", number, os.eventfd(0)))

    def offer(self) -> None:
        """Offer every buffer once more, and wake the worker."""
        self.done += ENTRIES
        struct.pack_into("<H", self._memory, self._offered + 2, self.done & 0xFFFF)
        os.eventfd_write(self._kick, 1)

    @property
    def ready(self) -> bool:
        """Whether the worker has used all that was offered."""
        used: int = struct.unpack_from("<H", self._memory, self._used + 2)[0]
        return used == self.done & 0xFFFF


def device() -> tuple[int, list[Ring]]:
    """Make the device; from here on this process has a worker."""
    memory = mmap.mmap(-1, 2 * RING_BYTES)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    file = os.open("/dev/vhost-vsock", os.O_RDWR)
    fcntl.ioctl(file, SET_OWNER)
    fcntl.ioctl(file, SET_FEATURES, struct.pack("<Q", VERSION_1))
    fcntl.ioctl(file, SET_MEM_TABLE, struct.pack("<II4Q", 1, 0, 0, len(memory), base, 0))
    rings = [Ring(memory, base, number, file) for number in (TO_OWNER, TO_WORKER)]
    fcntl.ioctl(file, SET_CID, struct.pack("<Q", os.getpid()))
    fcntl.ioctl(file, SET_RUNNING, struct.pack("<i", 1))
    return file, rings


def worker() -> int:
    """Return the thread id of this process's worker: one of its threads, or a kernel thread of that name."""
    name = f"vhost-{os.getpid()}\n"
    for folder in ("/proc/self/task", "/proc"):
        for path in Path(folder).glob("[0-9]*/comm"):
            if path.read_text() == name:
                return int(path.parent.name)
    raise SystemExit("the device has no worker")


def run_ns(tid: int) -> int:
    """Return how long a thread has been on CPUs."""
    return int(Path(f"/proc/{tid}/schedstat").read_text().split()[0])


def work(rings: list[Ring], rounds: int, tid: int) -> int:
    """Let the worker do its work until it sleeps again; return how many packets it delivered."""
    before, deadline = rings[TO_OWNER].done, time.monotonic() + PATIENCE_S
    for _ in range(rounds):
        for ring in rings:
            ring.offer()
        while not all(ring.ready for ring in rings) or " R " in Path(f"/proc/{tid}/stat").read_text():
            os.sched_yield()
            if time.monotonic() > deadline:
                raise SystemExit("the worker does not work")
    return rings[TO_OWNER].done - before


def main() -> None:
    """Do what the lines say."""
    os.sched_setaffinity(0, {int(sys.argv[1])})
    file, rings = device()
    tid = worker()
    status = Path(f"/proc/{tid}/status").read_text().split()
    tgid = int(status[status.index("Tgid:") + 1])
    print(json.dumps({"pid": os.getpid(), "tid": tid, "tgid": tgid}), flush=True)
    for line in sys.stdin:
        cpu, rounds = map(int, line.split())
        os.sched_setaffinity(tid, {cpu})
        before = run_ns(tid)
        answers = work(rings, rounds, tid)
        print(json.dumps({"ran_ns": run_ns(tid) - before, "answers": answers}), flush=True)
    os.close(file)


if __name__ == "__main__":
    main()
