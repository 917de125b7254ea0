"""The switch ledger's records as Python sees them: pure decoding of bytes, no bcc.

Mirrors ``ledger.h``, ``claims.h`` and ``membership.h`` beside it; an integration test compares names, offsets and sizes
with the structs that bcc generated.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from probes.records import CPU_WORDS, Record


@dataclass(frozen=True, slots=True)
class Row(Record):
    """One claim on one CPU in one window (``struct row``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=19Q")
    switches: int
    ns: int
    slotted_ns: int
    slot: int
    idle_wakes: int
    arrival_lag_ns: int
    departure_lag_ns: int
    wait_ns: int
    out_switches: int
    out_ns: int
    out_longest_ns: int
    transition_switches: int
    transition_ns: int
    samples: int
    out_samples: int
    details: int
    standstill_ns: int
    slotted_wait_ns: int
    migrations: int


@dataclass(frozen=True, slots=True)
class OffenceKey(Record):
    """``struct offence_key``."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=6I")
    epoch: int
    ident: int
    tid: int
    cpu: int
    life: int = 0
    pad: int = 0


@dataclass(frozen=True, slots=True)
class Offence(Record):
    """Sums of one thread outside on one CPU (``struct offence``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=6Q2I16s")
    switches: int
    ns: int
    longest_ns: int
    first_ns: int
    last_ns: int
    longest_end_ns: int
    tgid: int
    pad: int
    comm: bytes


@dataclass(frozen=True, slots=True)
class IntruderKey(Record):
    """``struct intruder_key``."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=4IQ2I")
    epoch: int
    cpu: int
    tid: int
    life: int
    cgroup: int
    origin: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class IntruderSums(Record):
    """Sums of one thread without a claim, in one cgroup, on one watched CPU (``struct intruder``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=6Q4I16s")
    switches: int
    ns: int
    longest_ns: int
    first_ns: int
    last_ns: int
    longest_end_ns: int
    tgid: int
    flags: int
    nr_cpus_allowed: int
    ident: int
    comm: bytes


@dataclass(frozen=True, slots=True)
class WaitKey(Record):
    """``struct wait_key``."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=4I")
    epoch: int
    ident: int
    cpu: int
    pad: int = 0


@dataclass(frozen=True, slots=True)
class WaitSums(Record):
    """Long waits of one claim on one CPU (``struct wait_sums``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=6Q80s80s")
    woken_ns: int
    preempted_ns: int
    throttled_ns: int
    unnamed_ns: int
    longest_ns: int
    longest_end_ns: int
    woken: bytes
    preempted: bytes


@dataclass(frozen=True, slots=True)
class CulpritKey(Record):
    """``struct culprit_key``."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=4IQ16s")
    epoch: int
    ident: int
    cpu: int
    kind: int
    of: int
    comm: bytes


@dataclass(frozen=True, slots=True)
class CulpritSums(Record):
    """What one culprit took of one claim's time on one CPU (``struct culprit``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=3Q2I")
    ns: int
    count: int
    longest_ns: int
    tgid: int
    pad: int = 0


@dataclass(frozen=True, slots=True)
class Detail(Record):
    """One of the first few violations (``struct detail``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2I2Q4I16s")
    kind: int
    window: int
    start_ns: int
    end_ns: int
    ident: int
    tid: int
    tgid: int
    cpu: int
    comm: bytes


@dataclass(frozen=True, slots=True)
class MoveEvent(Record):
    """A member was moved, or completed its joining (``struct move_event``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2I4Q10I")
    kind: int
    whole_process: int
    at_ns: int
    begun_ns: int
    joined_ns: int
    cgroup: int
    tid: int
    tgid: int
    life: int
    from_ident: int
    to_ident: int
    incomplete: int
    origin: int = 0
    left: int = 0
    writer_tgid: int = 0
    writer_ident: int = 0


@dataclass(frozen=True, slots=True)
class Piece(Record):
    """An interval that user space has to cut (``struct piece``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2I7Q12I16s")
    kind: int
    window: int
    from_ns: int
    now_ns: int
    start_ns: int
    cgroup: int
    member_ns: int
    joined_ns: int
    standstill_ns: int
    tid: int
    tgid: int
    cpu: int
    life: int
    tgid_life: int
    member_ident: int
    member_origin: int
    member_left: int
    cgroup_ident: int
    task_flags: int
    nr_cpus_allowed: int
    flags: int
    comm: bytes


@dataclass(frozen=True, slots=True)
class CpuState(Record):
    """A CPU's own counters (``struct cpu_state`` without the place cache)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=4Q6I10Q2I9Q")
    start_ns: int
    charged_ns: int
    judged: int
    next_compare_ns: int
    generation: int
    window: int
    from_idle: int
    before: int
    busy: int
    slot: int
    slot_end_ns: int
    ticks: int
    opened_ns: int
    closed_ns: int
    closed_judged: int
    closed_ticks: int
    closed_opened_ns: int
    lost_events: int
    map_full: int
    counted_start_ns: int
    counted: int
    closed_window: int
    standstill_ns: int
    stay_ns: int
    clock_difference: int
    compared_ns: int
    before_start_ns: int
    next: int
    queued_ns: int
    wait_end_ns: int
    turn: int


@dataclass(frozen=True, slots=True)
class Member(Record):
    """Since when a task is under a claim (``struct member``)."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct("=2I2Q4I")
    ident: int
    incomplete: int
    at_ns: int
    joined_ns: int
    origin: int = 0
    left: int = 0
    came: int = 0
    pad: int = 0


SETTLED = struct.Struct("=6Q")
"""``struct settled``: a thread's stay in a v1 cpuset, then its process's: cgroup, when it was written, settled from."""
FOREVER_NS = (1 << 64) - 1
"""``grace_until_ns`` while a change is under way; ``Member.at_ns`` while the program has not written the time yet."""

EVENT_OUTSIDE, EVENT_PIECE, EVENT_MOVE, EVENT_COMPLETE, EVENT_ENDED = range(1, 6)
PIECE_ENDED, PIECE_TICK, PIECE_FROM_IDLE, PIECE_COUNTED, PIECE_MEMBER, PIECE_INCOMPLETE = (1 << bit for bit in range(6))
PIECE_UNANNOUNCED, PIECE_OVERLOOKED = 64, 128
PODS_IDENT = 0xFFFFFFFF
SLOTS = 128
"""Of CPU time, that the kernel keeps of each claim."""
SPACES = {"cpuset": 1 << 63, "cpu": 1 << 62, "memory": 1 << 61}
"""Added to a cgroup's id where it is one of the v1 hierarchy of that controller."""
CPUSET_SPACE = SPACES["cpuset"]
LIMITS = {"cpu": 1, "memory": 2}
"""Bits of ``claim_root.in_limits``."""


def limits(controllers: Collection[str]) -> int:
    """Return the bits of some controllers."""
    return sum(bit for name, bit in LIMITS.items() if name in controllers)


WAIT_BUCKETS = 20
TOLD_NS = 16_000
"""Waits from here on are told one by one."""
(
    CULPRIT_IDLE,
    CULPRIT_THROTTLED,
    CULPRIT_CLAIM,
    CULPRIT_POD,
    CULPRIT_KTHREAD,
    CULPRIT_SYSTEM,
    CULPRIT_ENDED,
) = range(1, 8)
BINS = 256
"""Of a timeline, that the kernel keeps of a claim on a CPU."""
BIN = struct.Struct("=3I")
LEFT_VISIT = 1 << 31
"""In ``left``: what left had come from outside, with the same program."""
MASK_BUFFERS = 4
MASK_BYTES = CPU_WORDS * 8 * 2 + 16
CONFIG = struct.Struct("=6I")
CLAIM_ROOT = struct.Struct("=IIII")
MARK, PLACE_ENTRY, TURN = struct.Struct("=Q2I"), struct.Struct("=QQQII"), struct.Struct("=2Q2I")
MARKS, CACHE_SIZE, TURNS = 32, 16, 32
BLAMING_BYTES, SPAN_BYTES = 216, 56
CPU_STATE_BYTES = CpuState.LAYOUT.size + (
    MARKS * MARK.size + CACHE_SIZE * PLACE_ENTRY.size + TURNS * TURN.size + BLAMING_BYTES + SPAN_BYTES
)
"""``struct cpu_state``, of which user space reads what comes first; ``test_probe_records.py`` asks the compiler."""
RENAME_KEY = struct.Struct("=II")
RENAME = struct.Struct("=Q16s")
NOTES_PER_LINE = 128
NOTE_SEEN = 1 << 18


def encode_mask(cpus: int, grace: int, since_ns: int, grace_until_ns: int) -> bytes:
    """Encode ``struct mask`` from integer bit masks.

    :raises OverflowError: a CPU above 1023.
    """
    size = CPU_WORDS * 8
    return cpus.to_bytes(size, "little") + grace.to_bytes(size, "little") + struct.pack("=2Q", since_ns, grace_until_ns)
