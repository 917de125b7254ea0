"""The loaded programs of all witnesses: compiled as one unit, attached, turned from window to window, heard.

It knows no map and no record: what a witness has in the kernel is its :class:`Side`, and the list of them is given
(:mod:`probes.composition`). Nothing is pinned: when the process ends, by whatever means, the kernel drops everything.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import ClassVar, TypeVar

from probes import kernel_structs
from probes.bpfsys import Map, program_info, run_program
from probes.builder import Request
from probes.loader import LoadedPrograms, load
from probes.online import Online, possible
from probes.options import ObserveOptions
from probes.program import Program
from probes.readings import of_kind
from probes.ringbuf import Rings
from toolkit.errors import HostUnsupportedError
from toolkit.host import bpf_syscalls, limits
from toolkit.host.perf_event import run_on_cpu_clock
from toolkit.host.privileges import Cap, require
from toolkit.model.cpuset import CpuSet

OneSide = TypeVar("OneSide", bound="Side")


class Control(IntEnum):
    """Commands of ``on_control`` (``probes/switches/ledger.bpf.c``)."""

    SPLIT = 1
    WINDOW = 2
    LIVE = 3
    FLUSH = 4
    EPOCH = 5
    RENEW = 6


class Side:
    """What one witness has in the kernel, from loading to unloading: its source, its programs, its maps.

    One observer after the other uses it: whatever an observer leaves in its maps goes with :meth:`release` and
    :meth:`wipe`. Every method here may stay as it is where there is nothing to do.
    """

    SOURCE: ClassVar[str]
    """Path below ``probes/``; compiled in one unit with the others, after ``claims.h``."""
    PROGRAMS: ClassVar[tuple[Program, ...]] = ()
    RAW_TRACEPOINTS: ClassVar[dict[str, str]] = {}
    """Tracepoint -> the program that runs there, for programs that are always attached."""

    def __init__(self, programs: Programs) -> None:
        """Take the maps: the programs are loaded, and nothing is attached yet."""
        self.loaded = programs

    @staticmethod
    def settings(root: Path, options: ObserveOptions) -> dict[str, int]:
        """Return names and values of ``-D`` that the source needs beyond those of others."""
        del root, options
        return {}

    def rings(self) -> dict[str, Callable[[bytes], None]]:
        """Return its ring buffers by name, with what takes a record of each."""
        return {}

    def attach(self) -> None:
        """Attach what is always attached."""
        for tracepoint, function in self.RAW_TRACEPOINTS.items():
            self.loaded.attach(tracepoint, function)

    def watch(self, cpus: CpuSet) -> None:
        """Learn on which CPUs more is recorded from now on: the exclusive and reserved ones."""

    def release(self) -> None:
        """Take back what was published for the observer that goes; the programs still run."""

    def wipe(self, window: int) -> None:
        """Forget everything recorded before this window: nothing watches any more."""

    def close(self) -> None:
        """Free what is not freed with the maps and programs."""


class Programs:
    """The programs, loaded. Use :meth:`open` and :meth:`close`; calls come from one thread at a time.

    :param sides: what the witnesses have in the kernel, in the order of compilation.
    """

    SOURCE: ClassVar[str]
    PROGRAMS: ClassVar[tuple[Program, ...]] = ()
    observed: ClassVar[bool] = True
    """Whether programs run: where none do (:mod:`probes.unloaded`), that nothing was counted says nothing."""

    def __init__(self, root: Path, options: ObserveOptions, sides: Sequence[type[Side]]) -> None:
        self._root, self._options = root, options
        self._kinds = tuple(sides)
        self._loaded = LoadedPrograms()
        self._detach = contextlib.ExitStack()
        self._control = -1
        self._perf: dict[int, int] = {}
        self._online = Online(root)
        self.programs: dict[str, int] = {}
        """Descriptors by name: the needed programs, and those optional ones that are attached."""
        self.sides: tuple[Side, ...] = ()
        self.heard_ns = 0
        """CLOCK_MONOTONIC: every event up to here has been handed over."""
        self.blind_spots: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """Where ``/proc`` and ``/sys`` are."""
        return self._root

    @property
    def options(self) -> ObserveOptions:
        """What the programs were compiled for."""
        return self._options

    @classmethod
    def settings(cls, root: Path, options: ObserveOptions) -> dict[str, int]:
        """Return names and values of ``-D`` that are not one witness's alone."""
        del root, options
        return {}

    @classmethod
    def request(cls, root: Path, options: ObserveOptions, sides: Sequence[type[Side]]) -> Request:
        """Return what the programs are made from.

        :raises HostUnsupportedError: the kernel has no BTF, or more CPUs than the programs judge.
        """
        settings = kernel_structs.settings(root) | cls.settings(root, options)
        for side in sides:
            settings |= side.settings(root, options)
        return Request(
            sources=(cls.SOURCE, *(side.SOURCE for side in sides)),
            settings=settings,
            programs=(*cls.PROGRAMS, *(program for side in sides for program in side.PROGRAMS)),
        )

    def open(self) -> None:
        """Compile and load in a helper process, and attach.

        :raises HostUnsupportedError: the host lacks something; the message says what and how to get it.
        """
        require("loading BPF programs", Cap.BPF, Cap.PERFMON)
        limits.widen()
        limits.require_files()
        self._loaded = load(self.request(self._root, self._options, self._kinds), self._root)
        try:
            self._detach.enter_context(self._online)
            needed = [*self.PROGRAMS, *(program for kind in self._kinds for program in kind.PROGRAMS)]
            self.programs = {one.name: self._loaded.programs[one.name] for one in needed if not one.optional}
            self._control = self.programs["on_control"]
            rings = self._open_maps()
            self.sides = tuple(kind(self) for kind in self._kinds)
            for side in self.sides:
                rings |= side.rings()
            self._rings = Rings({self._loaded.maps[name]: take for name, take in rings.items()})
            self._detach.callback(self._rings.close)
            for side in self.sides:
                self._detach.callback(side.close)
                side.attach()
            for one in needed:
                if one.tracepoint:
                    self.attach(one.tracepoint, one.name, typed=True)
            self._attach_all()
            if any(program_info(fd).missed_runs is None for fd in self.programs.values()):
                # Programs of raw tracepoints are skipped since 05b24ff9b2cf (Linux 6.1), later than they are counted.
                self.blind_spots = (
                    "this kernel does not count the runs of programs that it skips: it skips none of ours",
                )
        except BaseException:
            self.close()
            raise

    def _open_maps(self) -> dict[str, Callable[[bytes], None]]:
        """Take the maps that are not one witness's alone; returns the ring buffers with what takes a record."""
        return {}

    def _attach_all(self) -> None:
        """Attach what the windows rest on, when every witness is attached."""

    def close(self) -> None:
        """Detach and free everything."""
        self.stop_sampler()
        self._detach.close()
        self._loaded.close()
        self.programs.clear()

    def side(self, kind: type[OneSide]) -> OneSide:
        """Return the side of this kind.

        :raises KeyError: the programs were loaded without it.
        """
        return of_kind(self.sides, kind)

    def table(self, name: str, key: int, value: int | None, *, per_cpu: bool = False) -> Map:
        """Return one of the maps.

        :param key, value: bytes of an entry as user space knows them; ``None``: whatever the kernel side has.
        :raises RuntimeError: the kernel side has others.
        """
        fd = self._loaded.maps[name]
        info = bpf_syscalls.map_info(fd)
        if (info.key_size, info.value_size) != (key, info.value_size if value is None else value):
            raise RuntimeError(f"map {name} has {info.key_size}+{info.value_size} bytes, not {key}+{value}")
        return Map(fd, key, info.value_size, possible(self._root) if per_cpu else 1)

    def attach(self, tracepoint: str, function: str, *, typed: bool = False) -> None:
        """Attach a program to a raw tracepoint, until the programs are closed.

        :param typed: it was loaded for this tracepoint alone.
        """
        try:
            link = bpf_syscalls.attach(self.programs[function], "" if typed else tracepoint)
        except OSError as error:
            cause = limits.shortage(error)
            if not cause:
                none = error.errno == errno.ENOENT
                cause = f"{error.strerror}{'; CONFIG_BPF_EVENTS is needed' if none else ''}"
            raise HostUnsupportedError(f"raw tracepoint {tracepoint}: {cause}") from None
        self._detach.callback(os.close, link)

    def optional(self, name: str) -> tuple[int | None, str]:
        """Return an optional program's descriptor, or ``None`` and why the kernel refused it."""
        return self._loaded.programs.get(name), self._loaded.left_out.get(name, "")

    def sample(self, cpus: CpuSet) -> CpuSet:
        """Start the CPU-clock sampler on these CPUs; returns those where it runs (a CPU may have gone offline)."""
        for cpu in cpus:
            if cpu in self._perf or not self.options.sampler_hz:
                continue
            with contextlib.suppress(OSError):
                self._perf[cpu] = run_on_cpu_clock(self.programs["on_tick"], cpu, self.options.sampler_hz)
        return CpuSet.of(self._perf)

    def sampled(self) -> CpuSet:
        """Return the CPUs with a sampler: they may be interrupted to count what runs there."""
        return CpuSet.of(self._perf) & self.online()

    def forget_sampler(self, cpu: int) -> None:
        """Close the sampler's event of a CPU that went offline: it does not come back by itself."""
        fd = self._perf.pop(cpu, None)
        if fd is not None:
            os.close(fd)

    def stop_sampler(self) -> None:
        """Close the sampler's events of all CPUs."""
        for cpu in tuple(self._perf):
            self.forget_sampler(cpu)

    def wake(self) -> None:
        """End the wait of :meth:`poll`; may be called by any thread."""
        self._rings.wake()

    def end_by(self, fd: int) -> Callable[[], None]:
        """Let :meth:`poll` end by what another's descriptor has: see :meth:`probes.ringbuf.Rings.end_by`."""
        return self._rings.end_by(fd)

    def poll(self, timeout_ms: int) -> None:
        """Wait for records and hand them over."""
        heard_ns = self._rings.wait(timeout_ms)
        if heard_ns is not None:
            self.heard_ns = heard_ns

    def online(self) -> CpuSet:
        """Return the CPUs that are online now; asked several times a second."""
        return self._online.read()

    def missed_runs(self) -> int:
        """Return how many program runs the kernel skipped."""
        return sum(program_info(fd).missed_runs or 0 for fd in self.programs.values())

    def run_time_ns(self) -> int:
        """Return our programs' run time; it stands still unless the kernel's statistics are on."""
        return sum(program_info(fd).run_time_ns for fd in self.programs.values())

    def control(self, command: int, first: int = 0, second: int = 0, cpu: int | None = None) -> None:
        """Run ``on_control`` once, on this CPU or on another."""
        run_program(self._control, command, first, second, cpu=cpu)

    def everywhere(self, cpus: CpuSet | None, command: int, value: int = 0) -> None:
        """Run ``on_control`` in an interrupt of every online CPU, or of these."""
        for cpu in self.online() if cpus is None else cpus:
            try:
                self.control(command, value, cpu=cpu)
            except OSError as error:
                if error.errno != errno.ENXIO:  # went offline meanwhile
                    raise
