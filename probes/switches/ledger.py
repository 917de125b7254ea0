"""The switch ledger, loaded: programs attached, claims published, windows opened and read.

A thin shell over ``probes/switches/ledger.bpf.c``. It knows slots, buffers and per-CPU rows, not claims' names, files
or meaning; :mod:`probes.observer` does. Nothing is pinned: when the process ends, by whatever means, the kernel drops
everything.

Longer than 300 lines: one object that owns all maps, so that what one observer leaves in them is known in one place.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from probes import kernel_structs
from probes.actions.reader import AFFINITY_PROGRAMS, Actions
from probes.bpfsys import Map, possible_cpus, program_info, run_program
from probes.builder import Request
from probes.cgroups import claimed_paths
from probes.interrupts.reader import Interrupts
from probes.loader import LoadedPrograms, load
from probes.options import MAX_LEVELS, ObserveOptions
from probes.program import Program
from probes.ringbuf import Rings
from probes.switches import records
from toolkit.errors import HostUnsupportedError
from toolkit.host import bpf_syscalls
from toolkit.host.perf_event import run_on_cpu_clock
from toolkit.model.cpuset import EMPTY, CpuSet

SOURCES = ("switches/ledger.bpf.c", "interrupts/interrupts.bpf.c", "actions/affinity.bpf.c", "cgroups/cgroups.bpf.c")
_IRQ_PROGRAMS = tuple(f"on_{what}_{end}" for what in ("irq", "vector", "softirq") for end in ("entry", "exit"))
_RAW_TRACEPOINTS = {
    "cgroup_attach_task": "on_attach",
    "cgroup_mkdir": "on_cgroup_mkdir",
    "cgroup_rmdir": "on_cgroup_rmdir",
    "sched_process_fork": "on_fork",
    "sched_process_exit": "on_exit",
    "task_rename": "on_rename",
    "sched_switch": "on_switch",
}
_PROGRAMS = (
    *(Program(name=name) for name in (*_RAW_TRACEPOINTS.values(), "on_control", *_IRQ_PROGRAMS)),
    Program(name="on_tick", kind="perf_event"),
    *AFFINITY_PROGRAMS,
)
_U32 = struct.Struct("=I")


def build_request(root: Path, options: ObserveOptions) -> Request:
    """Return what the programs are made from.

    :raises HostUnsupportedError: the kernel has no BTF, or more CPUs than the ledger judges.
    """
    settings = kernel_structs.settings(root)
    settings |= {
        "MAX_CLAIMS": options.max_claims,
        "MAX_LEVELS": MAX_LEVELS,
        "SAMPLER_GAP_NS": options.sampler_gap_ns,
        "MAX_CGROUPS": options.max_claims * 4 + 4,  # two hierarchies, and a cgroup that is made anew
        "MAX_TASKS": options.max_tasks,
        "NOTE_LINES": _note_lines(root),
        "PATIENCE_NS": options.pending_ms * 1_000_000,
        "MAX_RENAMES": options.max_offenders,
        "MAX_OFFENDERS": options.max_offenders,
        "MAX_INTRUDERS": options.max_intruders,
        "MAX_IRQS": options.max_irqs,
        "MAX_ACTIONS": options.max_actions,
        "CPUMASK_BYTES": -(-_possible(root) // 64) * 8,
        "RING_PAGES": options.ring_pages,
        "DETAILS": options.details_per_row,
    }
    return Request(sources=SOURCES, settings=settings, programs=_PROGRAMS)


def _possible(root: Path) -> int:
    cpus = possible_cpus((root / "sys/devices/system/cpu/possible").read_text(encoding="ascii"))
    if cpus > records.MAX_CPUS:
        raise HostUnsupportedError(f"this host may have {cpus} CPUs; the ledger judges at most {records.MAX_CPUS}")
    return cpus


def _note_lines(root: Path) -> int:
    thread_ids = int((root / "proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    return thread_ids // records.NOTES_PER_LINE + 1


class Ledger:
    """The loaded ledger. Use :meth:`open` and :meth:`close`; calls come from one thread at a time."""

    def __init__(self, root: Path, options: ObserveOptions) -> None:
        self._root, self._options = root, options
        self._loaded = LoadedPrograms()
        self._detach = contextlib.ExitStack()
        self._control = -1
        self._perf: dict[int, int] = {}
        self._buffer: dict[int, int] = {}
        self._dirty: set[int] = set()
        self._prepared = False
        self.programs: dict[str, int] = {}
        self.window = 0
        self.epoch = 0
        self.heard_ns = 0
        """CLOCK_MONOTONIC: every event up to here has been handed over."""
        self.members_lost = 0
        """Times that user space could not write a membership down: the map was full."""
        self._on_event: Callable[[bytes], None] | None = None
        self.blind_spots: tuple[str, ...] = ()
        self._idents = itertools.count(1)

    def open(self) -> None:
        """Compile and load in a helper process, and attach.

        :raises HostUnsupportedError: the host lacks something; the message says what and how to get it.
        """
        if os.geteuid() != 0:
            raise HostUnsupportedError("eBPF probes need root (or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN): use sudo")
        with contextlib.suppress(ValueError, OSError):  # kernels before 5.11 charge maps to RLIMIT_MEMLOCK
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self._loaded = load(build_request(self._root, self._options), self._root)
        try:
            self.programs = {name: fd for name, fd in self._loaded.programs.items() if not name.startswith("on_sys_")}
            self._control = self.programs["on_control"]
            self._open_maps()
            self.bump()
            maps = self._loaded.maps
            self._rings = Rings({maps["events"]: self._event, maps["actions"]: self.actions.hear})
            self._detach.callback(self._rings.close)
            self._detach.callback(self.actions.close)
            self.programs |= self.actions.attach_affinity(self._loaded, trace_syscalls=self._options.trace_syscalls)
            for tracepoint, function in _RAW_TRACEPOINTS.items():
                self._attach(tracepoint, function)
            # A defined beginning: nothing that ran before is counted in any window.
            self.new_window()
            if any(program_info(fd).missed_runs is None for fd in self.programs.values()):
                # Programs of raw tracepoints are skipped since 05b24ff9b2cf (Linux 6.1), later than they are counted.
                self.blind_spots = (
                    "this kernel does not count the runs of programs that it skips: it skips none of ours",
                )
        except BaseException:
            self.close()
            raise

    def _open_maps(self) -> None:
        cpus = _possible(self._root)

        def table(name: str, key: int, value: int, copies: int = 1) -> Map:
            fd = self._loaded.maps[name]
            info = bpf_syscalls.map_info(fd)
            if (info.key_size, info.value_size) != (key, value):
                raise RuntimeError(f"map {name} has {info.key_size}+{info.value_size} bytes, not {key}+{value}")
            return Map(fd, key, value, copies)

        self.roots = table("roots", 8, records.CLAIM_ROOT.size)
        self._config = table("config", 4, records.CONFIG.size)
        self._masks = table("masks", 4, records.MASK_BYTES)
        self._state = table("state", 4, records.CPU_STATE_BYTES, cpus)
        self._rows = table("rows", 4, records.Row.LAYOUT.size, cpus)
        self.offenders = table("offenders", records.OffenceKey.LAYOUT.size, records.Offence.LAYOUT.size)
        self.intruders = table("intruders", records.IntruderKey.LAYOUT.size, records.IntruderSums.LAYOUT.size)
        self.renames = table("renames", records.RENAME_KEY.size, records.RENAME.size)
        self.processes = table("processes", 4, records.Member.LAYOUT.size)
        self.threads = table("threads", 4, records.Member.LAYOUT.size)
        self.idents = table("idents", 4, 4)
        self._notes = table("notes", 4, records.NOTES_PER_LINE * 8)
        self.claimed = claimed_paths.ClaimedPaths(
            table("claimed_paths", claimed_paths.PATH_BYTES, claimed_paths.VALUE_BYTES), table("path_events", 4, 8)
        )
        irq_state = bpf_syscalls.map_info(self._loaded.maps["irq_state"]).value_size
        self._irq_state = table("irq_state", 4, irq_state, cpus)
        sums = table("irqs", records.IrqKey.LAYOUT.size, records.IrqSums.LAYOUT.size)
        self.interrupts = Interrupts(sums, table("irq_cpus", 4, 8), self._attach)
        self.actions = Actions(table("action_state", 4, records.ActionState.LAYOUT.size, cpus), self._root)
        self._zero_row = bytes(self._rows.value_size * cpus)

    def _attach(self, tracepoint: str, function: str) -> None:
        try:
            link = bpf_syscalls.attach(self.programs[function], tracepoint)
        except OSError as error:
            raise HostUnsupportedError(
                f"raw tracepoint {tracepoint}: {error.strerror}; CONFIG_BPF_EVENTS is needed"
            ) from None
        self._detach.callback(os.close, link)

    def _event(self, record: bytes) -> None:
        if self._on_event is not None:
            self._on_event(record)

    def close(self) -> None:
        """Detach and free everything."""
        for fd in self._perf.values():
            os.close(fd)
        self._perf.clear()
        self._detach.close()
        self._loaded.close()
        self.programs.clear()

    @property
    def options(self) -> ObserveOptions:
        """What the programs were compiled for."""
        return self._options

    def sample(self, cpus: CpuSet) -> CpuSet:
        """Start the CPU-clock sampler on these CPUs; returns those where it runs (a CPU may have gone offline)."""
        for cpu in cpus:
            if cpu in self._perf or not self._options.sampler_hz:
                continue
            with contextlib.suppress(OSError):
                self._perf[cpu] = run_on_cpu_clock(self.programs["on_tick"], cpu, self._options.sampler_hz)
        return CpuSet.of(self._perf)

    def sampled(self) -> CpuSet:
        """Return the CPUs with a sampler: they may be interrupted to count what runs there."""
        return CpuSet.of(self._perf) & self.online()

    def forget_sampler(self, cpu: int) -> None:
        """Close the sampler's event of a CPU that went offline: it does not come back by itself."""
        fd = self._perf.pop(cpu, None)
        if fd is not None:
            os.close(fd)

    def poll(self, timeout_ms: int) -> None:
        """Wait for records and hand them over."""
        begin = time.monotonic_ns()
        if self._rings.wait(timeout_ms):
            self.heard_ns = begin

    def online(self) -> CpuSet:
        """Return the CPUs that are online now."""
        return CpuSet.parse((self._root / "sys/devices/system/cpu/online").read_text(encoding="ascii"))

    def publish(self, slot: int, cpus: CpuSet, since_ns: int, grace: CpuSet = EMPTY, grace_until_ns: int = 0) -> None:
        """Let a new mask bind. ``slot`` ``max_claims``: the watched CPUs.

        :param since_ns: time before is transition on every CPU.
        :param grace: CPUs on which time before ``grace_until_ns`` is transition.
        """
        buffer = (self._buffer.get(slot, 0) + 1) % records.MASK_BUFFERS
        limit = (1 << records.MAX_CPUS) - 1
        mask = records.encode_mask(cpus.mask & limit, grace.mask & limit, since_ns, grace_until_ns)
        self._masks.update(_U32.pack(slot * records.MASK_BUFFERS + buffer), mask)
        self._buffer[slot] = buffer
        self._control_run(records.CONTROL_LIVE, slot, buffer)
        self.bump()

    def watch(self, cpus: CpuSet) -> None:
        """Choose the CPUs on which tasks without a claim, and interrupts, are recorded."""
        self.publish(self._options.max_claims, cpus, 0)
        self.interrupts.watch(cpus)

    def bump(self) -> None:
        """Make every CPU look its cached answers up again."""
        self._everywhere(None, records.CONTROL_FLUSH)
        # When no CPU keeps an old answer any more: from here on all tasks are looked up again.
        self._control_run(records.CONTROL_RENEW)

    def set_cpuset_hierarchy(self, number: int) -> None:
        """Say which v1 hierarchy has the cpuset controller (0: none): a joining is complete with it."""
        moves, epoch, *_ = records.CONFIG.unpack(self._config.lookup(_U32.pack(0)) or b"")
        self._config.update(_U32.pack(0), records.CONFIG.pack(moves, epoch, number, 0))

    def add_pods_root(self, cgroup_id: int, cpuset_id: int | None) -> None:
        """Say below which cgroup everything without a claim is a foreign pod's."""
        self._add_roots(cgroup_id, cpuset_id, self._options.max_claims, records.PODS_IDENT)

    def new_ident(self) -> int:
        """Return a number for a claim that no claim had since the programs were loaded."""
        return next(self._idents)

    def add_root(self, cgroup_id: int, slot: int, ident: int, cpuset_id: int | None = None) -> None:
        """Put a cgroup under a slot; its mask must have been published.

        :param cpuset_id: its number in the v1 hierarchy of the cpuset controller, where it has one there.
        """
        self._dirty.add(slot)
        self._prepared = False
        self._add_roots(cgroup_id, cpuset_id, slot, ident)

    def _add_roots(self, cgroup_id: int, cpuset_id: int | None, slot: int, ident: int) -> None:
        root = records.CLAIM_ROOT.pack(slot, ident, cpuset_id is not None, 0)
        self.idents.update(_U32.pack(ident), _U32.pack(slot))
        if cpuset_id is not None:
            self.roots.update(struct.pack("=Q", cpuset_id | records.CPUSET_SPACE), root)
        self.roots.update(struct.pack("=Q", cgroup_id), root)
        self.bump()

    def remove_root(self, cgroup_id: int, ident: int) -> None:
        """Take a claim's cgroup out; when this returns no CPU counts for its slot any more."""
        self.drop_root(cgroup_id)
        self.bump()
        self.split()
        # That of its v1 cpuset, and one that was made just before its name was forgotten: every program that ran then
        # has ended by now.
        for key, value in self.roots.items():
            if records.CLAIM_ROOT.unpack(value)[1] == ident:
                self.roots.delete(key)
                self.bump()

    def drop_root(self, cgroup_id: int) -> None:
        """Forget a cgroup that was deleted: nobody can be in it."""
        self.roots.delete(struct.pack("=Q", cgroup_id))

    def drop_cpuset(self, cpuset_id: int | None) -> None:
        """Forget a cgroup of the v1 cpuset hierarchy that was deleted."""
        if cpuset_id is not None:
            self.drop_root(cpuset_id | records.CPUSET_SPACE)

    def forget_ident(self, ident: int) -> None:
        """Let the records of a removed claim's members count no more."""
        self.idents.delete(_U32.pack(ident))

    def split(self, cpus: CpuSet | None = None) -> None:
        """Count the running intervals up to now, on every online CPU or on these."""
        self._everywhere(cpus, records.CONTROL_SPLIT)

    def new_window(self) -> int:
        """Close the window of every CPU and open the next; returns the number of the closed one."""
        self.prepare_window()
        closed, self.window = self.window, self.window + 1
        self._prepared = False
        self._everywhere(None, records.CONTROL_WINDOW, self.window)
        return closed

    def prepare_window(self) -> None:
        """Zero the rows that the next window will use, so that turning it over is quick."""
        if not self._prepared:
            for slot in self._dirty:
                self._rows.update(_U32.pack(slot * 2 + (self.window + 1 & 1)), self._zero_row)
        self._prepared = True

    def adopt_cpu(self, cpu: int) -> None:
        """Bring a CPU that came online into the present window."""
        self._everywhere(CpuSet.of([cpu]), records.CONTROL_FLUSH)
        self._everywhere(CpuSet.of([cpu]), records.CONTROL_WINDOW, self.window)

    def next_epoch(self) -> int:
        """Let detail maps be filled under a new epoch; returns the old one, which nobody writes any more."""
        old, self.epoch = self.epoch, (self.epoch + 1) & 255
        self._control_run(records.CONTROL_EPOCH, self.epoch)
        self.split()  # an interrupt on every CPU: programs that were running have ended
        return old

    @contextlib.contextmanager
    def lent(self, on_event: Callable[[bytes], None]) -> Iterator[None]:
        """Be one observer's while the block runs, which gets the events; be empty afterwards.

        :raises RuntimeError: another observer has it.
        """
        if self._on_event is not None:
            raise RuntimeError("another observer has this ledger: one at a time")
        self._on_event = on_event
        try:
            yield
        finally:
            self._on_event = None
            self._wipe()

    def _wipe(self) -> None:
        """Go back to what :meth:`open` made: no claim, nothing watched, nothing recorded, nobody sampled.

        What only grows stays (idents, windows, loss since the programs were loaded): a window is measured by
        differences, and numbers that are never used twice keep late records apart.
        """
        for path in tuple(self.claimed.paths.keys()):  # first: a new cgroup of the name must not become a root again
            self.claimed.paths.delete(path)
        for root in tuple(self.roots.keys()):
            self.roots.delete(root)
        self.set_cpuset_hierarchy(0)
        self.watch(EMPTY)  # drops every CPU's answers about the roots too
        self.new_window()  # what runs is cut here; nothing is recorded any more
        for slot in tuple(self._dirty):
            self.clear_slot(slot)
        for cpu in tuple(self._perf):
            self.forget_sampler(cpu)
        for table in (self.offenders, self.intruders, self.processes, self.threads, self.idents, self.renames):
            for key in tuple(table.keys()):
                table.delete(key)
        # A thread's number may be another one's next time: hidden threads are told apart by never having been seen.
        self._notes.zero(_note_lines(self._root))
        # A handler that was under way when its CPU ceased to be watched would seem to last for ever.
        self._irq_state.update(_U32.pack(0), bytes(self._irq_state.value_size * self._irq_state.copies))
        self._rings.drain()
        self.interrupts.forget(self.window)
        self.actions.drop_old(self.window)
        self._prepared = False

    def clear_slot(self, slot: int) -> None:
        """Zero a slot's rows of both windows, so that it can be used again."""
        for parity in (0, 1):
            self._rows.update(_U32.pack(slot * 2 + parity), self._zero_row)
        self._dirty.discard(slot)

    def rows(self, slot: int, window: int) -> list[records.Row]:
        """Return a slot's rows by CPU in this window or the one closed last."""
        data = self._rows.lookup(_U32.pack(slot * 2 + (window & 1))) or b""
        return [records.Row(*values) for values in records.Row.LAYOUT.iter_unpack(data)]

    def states(self) -> list[records.CpuState]:
        """Return every possible CPU's own counters."""
        data = self._state.lookup(_U32.pack(0)) or b""
        return [records.CpuState.decode(piece) for piece in records.per_cpu(data, self._state.value_size)]

    def seen(self, tid: int) -> bool:
        """Say whether the ledger ever saw this thread switched out."""
        line = self._notes.lookup(_U32.pack(tid // records.NOTES_PER_LINE)) or b""
        note = line[tid % records.NOTES_PER_LINE * 8 :][:8]
        return bool(int.from_bytes(note, "little") & records.TAG_MASK)

    def name(self, tid: int, life: int, last_ns: int, first: bytes) -> bytes:
        """Return what a task was called when it ran last, at ``last_ns``; ``first``: when it was recorded first."""
        found = self.renames.lookup(records.RENAME_KEY.pack(tid, life))
        if found is None:
            return first
        at_ns, comm = records.RENAME.unpack(found)
        return comm if at_ns <= last_ns else first

    def missed_runs(self) -> int:
        """Return how many program runs the kernel skipped."""
        return sum(program_info(fd).missed_runs or 0 for fd in self.programs.values())

    def run_time_ns(self) -> int:
        """Return our programs' run time; it stands still unless the kernel's statistics are on."""
        return sum(program_info(fd).run_time_ns for fd in self.programs.values())

    def _control_run(self, command: int, first: int = 0, second: int = 0, cpu: int | None = None) -> None:
        run_program(self._control, command, first, second, cpu=cpu)

    def _everywhere(self, cpus: CpuSet | None, command: int, value: int = 0) -> None:
        for cpu in self.online() if cpus is None else cpus:
            try:
                self._control_run(command, value, cpu=cpu)
            except OSError as error:
                if error.errno != errno.ENXIO:  # went offline meanwhile
                    raise
