"""The claims in the kernel, and the ledger of switches: published, turned from window to window, read.

A thin shell over ``probes/switches/ledger.bpf.c`` and ``claims.h``, on top of the loaded programs
(:mod:`probes.programs`). All programs ask it whose claim a task is under and in which window it is, so it is
what an observer borrows. It knows slots, buffers and per-CPU rows, not claims' names, files or meaning.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from probes.options import MAX_LEVELS, ObserveOptions
from probes.program import Program
from probes.programs import Control, Programs, Side
from probes.records import MAX_CPUS, per_cpu
from probes.switches import moving, records
from probes.switches.notes import Notes, note_lines
from probes.switches.rows import Rows
from probes.switches.spreads import Spreads
from probes.switches.timeline import KernelBins
from toolkit.model.cpuset import EMPTY, CpuSet

_RAW_TRACEPOINTS = {
    "cgroup_attach_task": "on_attach",
    "sched_process_fork": "on_fork",
    "sched_process_exit": "on_exit",
    "task_rename": "on_rename",
    "sched_migrate_task": "on_migrate",
}
_U32 = struct.Struct("=I")
NO_LEGACY: Mapping[str, int] = {}


class Ledger(Programs):
    """The loaded ledger, with the sides of the other witnesses."""

    SOURCE = "switches/ledger.bpf.c"
    PROGRAMS = (
        *(Program(name=name) for name in (*_RAW_TRACEPOINTS.values(), "on_control")),
        Program(name="on_switch", tracepoint="sched_switch"),
        Program(name="on_tick", kind="perf_event"),
        *moving.PROGRAMS,
    )

    def __init__(self, root: Path, options: ObserveOptions, sides: Sequence[type[Side]]) -> None:
        super().__init__(root, options, sides)
        self._buffer: dict[int, int] = {}
        self._dirty: set[int] = set()
        self._prepared = False
        self.window = 0
        self.epoch = 0
        self.members_lost = 0
        """Times that user space could not write a membership down: the map was full."""
        self.on_event: Callable[[bytes], None] | None = None
        """Takes every record of the ring of events."""
        self._lent = False
        self.moving = moving.Moving(self)
        self._idents = itertools.count(1)

    @classmethod
    def settings(cls, root: Path, options: ObserveOptions) -> dict[str, int]:
        """Return the sizes of the maps, and what the programs judge by."""
        return {
            "MAX_CLAIMS": options.max_claims,
            "MAX_LEVELS": MAX_LEVELS,
            "SAMPLER_GAP_NS": options.sampler_gap_ns,
            "MAX_CGROUPS": options.max_claims * 8 + 8,  # v2 and three of v1, and cgroups that are made anew
            "MAX_TASKS": options.max_tasks,
            "MAX_SETTLED": options.max_settled,
            "NOTE_LINES": note_lines(root),
            "SLOT_NS": options.slot_ms * 1_000_000,
            "SLOTS_EACH": options.bin_ms // options.slot_ms,
            "BINS": records.BINS,
            "BINNED_CLAIMS": min(options.binned_claims, options.max_claims) if options.timeline else 0,
            "MAX_WAITS": options.max_waits,
            "MAX_CULPRITS": options.max_culprits,
            "JOINING_NS": options.joining_ms * 1_000_000,
            "MAX_RENAMES": options.max_offenders,
            "MAX_OFFENDERS": options.max_offenders,
            "MAX_INTRUDERS": options.max_intruders,
            "RING_PAGES": options.ring_pages,
            "DETAILS": options.details_per_row,
        }

    def _open_maps(self) -> dict[str, Callable[[bytes], None]]:
        table = self.table
        self.roots = table("roots", 8, records.CLAIM_ROOT.size)
        self._config = table("config", 4, records.CONFIG.size)
        self._masks = table("masks", 4, records.MASK_BYTES)
        self._state = table("state", 4, records.CPU_STATE_BYTES, per_cpu=True)
        each = self.options.bin_ms // self.options.slot_ms
        self.rows = Rows(table("rows", 4, records.Row.LAYOUT.size, per_cpu=True), self.options.max_claims, each)
        self.spreads = Spreads(table("spreads", 4, records.SLOTS * 8), self.rows, self.options.max_claims)
        self.offenders = table("offenders", records.OffenceKey.LAYOUT.size, records.Offence.LAYOUT.size)
        self.intruders = table("intruders", records.IntruderKey.LAYOUT.size, records.IntruderSums.LAYOUT.size)
        binned = self.settings(self.root, self.options)["BINNED_CLAIMS"]
        self.bins = KernelBins(table("bins", 4, records.BINS * records.BIN.size, per_cpu=True), binned)
        self.waits = table("waits", records.WaitKey.LAYOUT.size, records.WaitSums.LAYOUT.size)
        self.culprits = table("culprits", records.CulpritKey.LAYOUT.size, records.CulpritSums.LAYOUT.size)
        self._throttles = table("throttles", 8, 32)
        self._idents_of = table("idents_of", 4, 4)
        self.renames = table("renames", records.RENAME_KEY.size, records.RENAME.size)
        self.processes = table("processes", 4, records.Member.LAYOUT.size)
        self.threads = table("threads", 4, records.Member.LAYOUT.size)
        self.settled = table("settled", 4, records.SETTLED.size)
        self.idents = table("idents", 4, 4)
        self._notes = Notes(table("notes", 4, records.NOTES_PER_LINE * 8), note_lines(self.root))
        self.bump()
        return {"events": self._event}

    def _attach_all(self) -> None:
        self._detach.enter_context(self.moving.attach())
        for tracepoint, function in _RAW_TRACEPOINTS.items():
            self.attach(tracepoint, function)
        # A defined beginning: nothing that ran before is counted in any window.
        self.new_window()

    def _event(self, record: bytes) -> None:
        if self.on_event is not None:
            self.on_event(record)

    def publish(self, slot: int, cpus: CpuSet, since_ns: int, grace: CpuSet = EMPTY, grace_until_ns: int = 0) -> None:
        """Let a new mask bind. ``slot`` ``max_claims``: the watched CPUs.

        :param since_ns: time before is transition on every CPU.
        :param grace: CPUs on which time before ``grace_until_ns`` is transition.
        """
        # Not the buffer that is in use, nor those before it: a program that was interrupted may still read one.
        buffer = (self._buffer.get(slot, 0) + 1) % records.MASK_BUFFERS
        limit = (1 << MAX_CPUS) - 1
        mask = records.encode_mask(cpus.mask & limit, grace.mask & limit, since_ns, grace_until_ns)
        self._masks.update(_U32.pack(slot * records.MASK_BUFFERS + buffer), mask)
        self._buffer[slot] = buffer
        self.control(Control.LIVE, slot, buffer)
        self.bump()

    def watch(self, cpus: CpuSet) -> None:
        """Choose the CPUs on which tasks without a claim, and interrupts, are recorded."""
        self.publish(self.options.max_claims, cpus, 0)
        for side in self.sides:
            side.watch(cpus)

    def bump(self) -> None:
        """Make every CPU look its cached answers up again."""
        self.everywhere(None, Control.FLUSH)
        # When no CPU keeps an old answer any more: from here on all tasks are looked up again.
        self.control(Control.RENEW)

    def set_hierarchies(self, numbers: Mapping[str, int]) -> None:
        """Say which v1 hierarchies have the controllers that matter (0: none has): with that of the cpuset a joining is
        complete, and whatever leaves one has left what is promised there.
        """
        moves, epoch, *_ = records.CONFIG.unpack(self._config.lookup(_U32.pack(0)) or b"")
        # No hierarchy has the number of v2, and none this one.
        cpuset, cpu, memory = (numbers.get(name, 0) for name in records.SPACES)
        self._config.update(_U32.pack(0), records.CONFIG.pack(moves, epoch, cpuset, cpu, memory, 0))

    def add_pods_root(self, cgroup_id: int, legacy_ids: Mapping[str, int]) -> None:
        """Say below which cgroup everything without a claim is a foreign pod's."""
        self._add_roots(cgroup_id, legacy_ids, self.options.max_claims, records.PODS_IDENT)

    def new_ident(self) -> int:
        """Return a number for a claim that no claim had since the programs were loaded."""
        return next(self._idents)

    def add_root(self, cgroup_id: int, slot: int, ident: int, legacy_ids: Mapping[str, int] = NO_LEGACY) -> None:
        """Put a cgroup under a slot; its mask must have been published.

        :param legacy_ids: its numbers in v1 hierarchies, by controller, where it has one there.
        """
        self._dirty.add(slot)
        self._prepared = False
        self._add_roots(cgroup_id, legacy_ids, slot, ident)

    def _add_roots(self, cgroup_id: int, legacy_ids: Mapping[str, int], slot: int, ident: int) -> None:
        root = records.CLAIM_ROOT.pack(slot, ident, "cpuset" in legacy_ids, records.limits(legacy_ids))
        self.idents.update(_U32.pack(ident), _U32.pack(slot))
        self._idents_of.update(_U32.pack(slot), _U32.pack(ident))
        for controller, number in legacy_ids.items():
            self.roots.update(struct.pack("=Q", number | records.SPACES[controller]), root)
        self.roots.update(struct.pack("=Q", cgroup_id), root)
        self.bump()

    def remove_root(self, cgroup_id: int, ident: int) -> None:
        """Take a claim's cgroup out; when this returns no CPU counts for its slot any more."""
        self.drop_root(cgroup_id)
        self.bump()
        self.split()
        # Those of v1, and one made just before its name was forgotten: the programs that ran then have ended.
        for key, value in self.roots.items():
            if records.CLAIM_ROOT.unpack(value)[1] == ident:
                self.roots.delete(key)
                self.bump()

    def drop_root(self, cgroup_id: int) -> None:
        """Forget a cgroup that was deleted: nothing can be in it."""
        self.roots.delete(struct.pack("=Q", cgroup_id))

    def drop_legacy(self, controller: str, number: int | None) -> None:
        """Forget a cgroup of a v1 hierarchy that was deleted."""
        if number is not None:
            self.drop_root(number | records.SPACES[controller])

    def forget_ident(self, ident: int) -> None:
        """Let the records of a removed claim's members count no more."""
        self.idents.delete(_U32.pack(ident))

    def split(self, cpus: CpuSet | None = None) -> None:
        """Count the running intervals up to now, on every online CPU or on these."""
        self.everywhere(cpus, Control.SPLIT)

    def new_window(self) -> int:
        """Close the window of every CPU and open the next; returns the number of the closed one."""
        self.prepare_window()
        closed, self.window = self.window, self.window + 1
        self._prepared = False
        self.everywhere(None, Control.WINDOW, self.window)
        return closed

    def prepare_window(self) -> None:
        """Zero the rows that the next window will use, so that turning it over is quick."""
        if not self._prepared:
            for slot in self._dirty:
                self._clear(slot, self.window + 1)
        self._prepared = True

    def _clear(self, slot: int, window: int) -> None:
        self.rows.clear(slot, window)
        self.spreads.clear(slot, window)
        self.bins.clear(slot, window)

    def adopt_cpu(self, cpu: int) -> None:
        """Bring a CPU that came online into the present window."""
        self.rows.reach(cpu + 1)
        # It was away while the others were interrupted: its answers and its window may be of any time before.
        self.everywhere(CpuSet.of([cpu]), Control.FLUSH)
        self.everywhere(CpuSet.of([cpu]), Control.WINDOW, self.window)

    def next_epoch(self) -> int:
        """Let detail maps be filled under a new epoch; returns the old one, which nothing writes any more."""
        old, self.epoch = self.epoch, (self.epoch + 1) & 255
        self.control(Control.EPOCH, self.epoch)
        self.split()  # an interrupt on every CPU: programs that were running have ended
        return old

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Be one observer's while the block runs; be empty afterwards.

        :raises RuntimeError: another observer has it.
        """
        if self._lent:
            raise RuntimeError("another observer has this ledger: one at a time")
        self._lent = True
        try:
            yield
        finally:
            self.on_event = None
            self._lent = False
            self._wipe()

    def _wipe(self) -> None:
        """Go back to what :meth:`open` made: no claim, nothing watched, nothing recorded, nothing sampled.

        What only grows stays (idents, windows, loss since the programs were loaded): a window is measured by
        differences, and numbers that are never used twice keep late records apart.
        """
        for side in self.sides:
            side.release()
        for root in tuple(self.roots.keys()):
            self.roots.delete(root)
        self.set_hierarchies({})
        self.watch(EMPTY)  # drops every CPU's answers about the roots too
        self.new_window()  # what runs is cut here; nothing is recorded any more
        for slot in tuple(self._dirty):
            self.clear_slot(slot)
        self.stop_sampler()
        details = (self.offenders, self.intruders, self.waits, self.culprits, self._throttles, self.renames)
        for table in (*details, self.processes, self.threads, self.settled, self.idents):
            for key in tuple(table.keys()):
                table.delete(key)
        self._notes.forget()
        self._rings.drain()
        for side in self.sides:
            side.wipe(self.window)
        self._prepared = False

    def clear_slot(self, slot: int) -> None:
        """Zero a slot's rows of both windows, so that it can be used again."""
        for parity in (0, 1):
            self._clear(slot, parity)
        self._dirty.discard(slot)

    def online(self) -> CpuSet:
        """Return the CPUs that are online now; their rows are read from now on."""
        cpus = super().online()
        self.rows.reach(cpus.mask.bit_length())
        return cpus

    def read_states(self) -> bytes:
        """Read every possible CPU's own counters, for :meth:`states`: quick, where something waits."""
        return self._state.lookup(_U32.pack(0)) or b""

    def states(self, data: bytes | None = None) -> list[records.CpuState]:
        """Return every possible CPU's own counters. :param data: read before; ``None``: as they are now."""
        data = self.read_states() if data is None else data
        return [records.CpuState.decode(piece) for piece in per_cpu(data, self._state.value_size)]

    def seen(self, tid: int) -> bool:
        """Say whether the ledger ever saw this thread switched out."""
        return self._notes.seen(tid)

    def name(self, tid: int, life: int, last_ns: int, first: bytes) -> bytes:
        """Return what a task was called when it ran last, at ``last_ns``; ``first``: when it was recorded first."""
        found = self.renames.lookup(records.RENAME_KEY.pack(tid, life))
        if found is None:
            return first
        at_ns, comm = records.RENAME.unpack(found)
        return comm if at_ns <= last_ns else first
