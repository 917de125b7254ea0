"""What the iterator says of threads, from bytes to values: pure, no bcc.

Mirrors ``masks.h`` beside it; an integration test compares what it says of real threads. How long a record is depends
on how many CPUs and memory nodes this host may have.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from probes.masks.status import Masks
from probes.masks.thread import Thread, alike, policy_name
from probes.records import comm
from toolkit.model.cpuset import CpuSet

EXITING, OF_KERNEL = 0x00000004, 0x00200000
"""``enum task_flags``."""
_WORD_BITS = 64
Meant = TypeVar("Meant")


class TaskMasks(NamedTuple):
    """A thread of the claim ``ident`` (``struct task_masks``).

    :param exiting: its cgroup may hold it no longer: its masks are changed by nothing any more.
    :param of_kernel: a kernel thread, whose name in ``/proc`` may be longer.
    """

    ident: int
    thread: Thread
    exiting: bool
    of_kernel: bool


class Chunk:
    """Records that follow one another in a pass: most are the same in each, and say the same.

    :param tasks: what they mean, of one claim. ``exiting``: one of them is about to end.
    """

    __slots__ = ("exiting", "groups", "tasks")

    def __init__(self, tasks: tuple[TaskMasks, ...]) -> None:
        self.tasks = tasks
        self.exiting = any(task.exiting for task in tasks)
        self.groups = alike(task.thread for task in tasks)


class Layout:
    """How a record is laid out on a host of so many CPUs and memory nodes (the highest possible and all below)."""

    def __init__(self, cpus: int, nodes: int) -> None:
        self.cpu_words, self.node_words = -(-cpus // _WORD_BITS), -(-nodes // _WORD_BITS)
        self._cpus, self._nodes = (1 << cpus) - 1, (1 << nodes) - 1
        self._struct = struct.Struct(f"=6I16s{self.cpu_words + self.node_words}Q")
        self.size = self._struct.size
        self._masks, self._name = lru_cache(maxsize=4096)(self._meant), lru_cache(maxsize=4096)(comm)

    def decode(self, record: bytes) -> TaskMasks:
        """Read one record."""
        ident, tid, pid, policy, flags, _, name, *words = self._struct.unpack(record)
        thread = Thread(
            tid=tid, pid=pid, comm=self._name(name), masks=self._masks(tuple(words)), policy=policy_name(policy)
        )
        return TaskMasks(ident, thread, bool(flags & EXITING), bool(flags & OF_KERNEL))

    def chunk(self, records: bytes) -> Chunk:
        """Read records that follow one another."""
        size = self.size
        return Chunk(tuple(self.decode(records[at : at + size]) for at in range(0, len(records), size)))

    def _meant(self, words: tuple[int, ...]) -> Masks:
        # Beyond the last possible CPU a mask may have bits that mean nothing: the kernel does not print them either.
        whole = [sum(word << _WORD_BITS * place for place, word in enumerate(part)) for part in self._parts(words)]
        return Masks(CpuSet(whole[0] & self._cpus), CpuSet(whole[1] & self._nodes))

    def _parts(self, words: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return words[: self.cpu_words], words[self.cpu_words :]

    def known(self, masks: Masks) -> Masks:
        """Return of masks that were read elsewhere what a record can say of them."""
        return Masks(CpuSet(masks.cpus.mask & self._cpus), CpuSet(masks.mems.mask & self._nodes))


class _Remembered(Generic[Meant]):
    """What bytes meant in this window and in the one before. :param most: how much is remembered of a window."""

    def __init__(self, read: Callable[[bytes], Meant], most: int) -> None:
        self._read, self._most, self._room = read, most, most
        self._now: dict[bytes, Meant] = {}
        self._before = self._now

    def turn(self) -> None:
        """Begin with a window."""
        self._before, self._now, self._room = self._now, {}, self._most

    def of(self, data: bytes, weight: int = 1) -> Meant:
        """Return what bytes mean. :param weight: how much that is."""
        found = self._now.get(data)
        if found is None:
            found = self._before.get(data) or self._read(data)
            if weight <= self._room:
                self._now[data] = found
                self._room -= weight
        return found


class Known:
    """What the records of this window and of the one before meant: most threads are the same in each.

    :param most: records that are remembered of a window; as many again in chunks.
    """

    def __init__(self, layout: Layout, most: int) -> None:
        self.layout = layout
        self._tasks, self._chunks = _Remembered(layout.decode, most), _Remembered(layout.chunk, most)

    def turn(self) -> None:
        """Begin with a window."""
        self._tasks.turn()
        self._chunks.turn()

    def chunk(self, records: bytes) -> Chunk:
        """Read records that follow one another."""
        return self._chunks.of(records, len(records) // self.layout.size)

    def decode(self, record: bytes) -> TaskMasks:
        """Read one record."""
        return self._tasks.of(record)
