"""The one place that makes bpf(2) calls: loads and attaches programs, asks what is loaded, and what is allowed here.

Functions named ``try_*`` ask the kernel with the smallest real call, return 0 or the errno that it gave, and close what
they made at once.

Source: bpf(2), include/uapi/linux/bpf.h (``union bpf_attr``, ``struct bpf_map_info``); perf_event_open(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from toolkit.host.perf_event import CPU_CLOCK, DISABLED, open_software_event
from toolkit.host.syscalls import call

MAP_CREATE, PROG_LOAD, OBJ_INFO, RAW_TRACEPOINT_OPEN, BTF_LOAD, LINK_CREATE, ITER_CREATE = 0, 5, 15, 17, 18, 28, 33
PERF_EVENT, RAW_TRACEPOINT, TRACING = 7, 17, 26
"""Types of programs."""
TRACE_RAW_TP, TRACE_FENTRY, TRACE_FEXIT, TRACE_ITER = 23, 24, 25, 28
"""Expected attach types of a tracing program: a tracepoint, the begin and the return of a kernel function, an iterator
over the kernel's objects of one kind."""
CONTROL_FILE_WRITE = "cgroup_file_write"
"""The kernel's function through which every write to a file of a cgroup goes."""
ATTACH_TASK = "cgroup_attach_task"
"""The kernel's function that moves a thread or a process to another cgroup, and reports it when it is done."""
_MAP_TYPE_ARRAY, _MAP_TYPE_RINGBUF = 2, 27
_ATTR_BYTES = 128
"""More than the fields set here: every kernel accepts a longer ``bpf_attr`` whose rest is zero."""
_INFO_BYTES = 256
_NAME_BYTES = 15
"""``BPF_OBJ_NAME_LEN`` without its NUL."""
_LOG_BYTES = 1 << 24  # the most that every kernel takes is UINT_MAX >> 8
_PROBE_READ_KERNEL = 113
"""``bpf_probe_read_kernel``."""
_RETURN_ZERO = bytes.fromhex("b700000000000000 9500000000000000")
"""``r0 = 0; exit``: all other bits are zero, so both byte orders look alike."""


class ProgramRefusedError(OSError):
    """The kernel does not load a program; ``log`` is what the verifier said."""

    def __init__(self, code: int, log: str) -> None:
        super().__init__(code, os.strerror(code))
        self.log = log


def bpf(command: int, attributes: bytes) -> int:
    """Make the call with the beginning of a ``union bpf_attr``; the rest is zero, which any kernel accepts.

    :raises OSError: what the kernel says.
    """
    return _bpf(command, ctypes.create_string_buffer(attributes.ljust(_ATTR_BYTES, b"\0"), _ATTR_BYTES))


def bpf_answer(command: int, attributes: bytes) -> tuple[int, bytes]:
    """Make a call of which the kernel answers within the attributes; returns 0 or the errno, and the attributes."""
    buffer = ctypes.create_string_buffer(attributes.ljust(_ATTR_BYTES, b"\0"), _ATTR_BYTES)
    try:
        _bpf(command, buffer)
    except OSError as error:
        return error.errno or errno.EIO, buffer.raw
    return 0, buffer.raw


def _bpf(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    return call("bpf", command, attributes, len(attributes))


def load_program(
    kind: int,
    code: bytes,
    *,
    name: str = "",
    attach_type: int = 0,
    attach_btf_id: int = 0,
    licence: bytes = b"GPL",
    functions: tuple[bytes, bytes] = (b"", b""),
) -> int:
    """Load a program; the maps that it uses are open descriptors of this process, numbered in its code.

    :param attach_type, attach_btf_id: for a :data:`TRACING` program: what place, and its number in the BTF.
    :param functions: of a program that calls functions of its own: their types (BTF), and which begins where
        (``struct bpf_func_info``).
    :raises ProgramRefusedError: with the verifier's log, as far as the kernel wrote one.
    """
    with _types(functions[0]) as types:
        return _load_program(kind, code, name, (attach_type, attach_btf_id), licence, types, functions[1])


@contextlib.contextmanager
def _types(btf: bytes) -> Iterator[int]:
    """Load types for as long as a program that has them is loaded; yields their descriptor, 0 where there are none."""
    if not btf:
        yield 0
        return
    buffer = ctypes.create_string_buffer(btf, len(btf))
    try:
        fd = bpf(BTF_LOAD, struct.pack("=QQIII", ctypes.addressof(buffer), 0, len(btf), 0, 0))
    except OSError as error:
        raise ProgramRefusedError(error.errno or errno.EIO, "") from None
    try:
        yield fd
    finally:
        os.close(fd)


def _load_program(
    kind: int, code: bytes, name: str, place: tuple[int, int], licence: bytes, types: int, functions: bytes
) -> int:
    attach_type, attach_btf_id = place
    text = ctypes.create_string_buffer(code, len(code))
    terms = ctypes.create_string_buffer(licence)
    begins = ctypes.create_string_buffer(functions, len(functions))
    known = (8, ctypes.addressof(begins), len(functions) // 8) if functions else (0, 0, 0)
    label = "".join(sign for sign in name if sign.isalnum() or sign == "_")[:_NAME_BYTES].encode()

    def attempt(log: Any) -> int:
        asked = (1, _LOG_BYTES, ctypes.addressof(log)) if log is not None else (0, 0, 0)
        return bpf(
            PROG_LOAD,
            struct.pack(
                "=IIQQIIQII16sIIIIQIIQIII",
                *(kind, len(code) // 8, ctypes.addressof(text), ctypes.addressof(terms), *asked),
                *(0, 0, label, 0, attach_type, types, *known, 0, 0, 0, attach_btf_id, 0),
            ),
        )

    try:
        return attempt(None)
    except OSError as error:
        # Again with a log: writing one costs time, and no program needs it that is good. Of the room for it only those
        # pages become memory that the kernel writes.
        log = (ctypes.c_char * _LOG_BYTES).from_buffer(mmap.mmap(-1, _LOG_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        with contextlib.suppress(OSError):
            return attempt(log)
        raise ProgramRefusedError(error.errno or errno.EIO, log.value.decode(errors="replace")) from None


def attach(program: int, tracepoint: str = "") -> int:
    """Attach a program and return the descriptor that holds it there.

    :param tracepoint: of a raw-tracepoint program, which may have several; a tracing program knows its own place.
    :raises OSError: ENOENT where the kernel has no such tracepoint.
    """
    name = ctypes.create_string_buffer(tracepoint.encode())
    return bpf(RAW_TRACEPOINT_OPEN, struct.pack("=QI", ctypes.addressof(name) if tracepoint else 0, program))


def link_iterator(program: int) -> int:
    """Bind an iterator's program to what it iterates over, and return the descriptor that holds it there.

    :raises OSError: what the kernel says.
    Source: commit de4e05cac46d "bpf: Support bpf tracing/iter programs for BPF_LINK_CREATE" (Linux 5.8).
    """
    return bpf(LINK_CREATE, struct.pack("=III", program, 0, TRACE_ITER))


def open_iterator(link: int) -> int:
    """Return a descriptor from which one pass over the objects can be read: the program runs in read(2).

    :raises OSError: what the kernel says.
    Source: commit ac51d99bf81c "bpf: Create anonymous bpf iterator" (Linux 5.8).
    """
    return bpf(ITER_CREATE, struct.pack("=II", link, 0))


def object_info(fd: int) -> bytes:
    """Return the kernel's description of a program or a map: as many bytes as this kernel knows of."""
    info = ctypes.create_string_buffer(_INFO_BYTES)
    attributes = struct.pack("=IIQ", fd, _INFO_BYTES, ctypes.addressof(info))
    buffer = ctypes.create_string_buffer(attributes.ljust(_ATTR_BYTES, b"\0"), _ATTR_BYTES)
    _bpf(OBJ_INFO, buffer)
    return info.raw[: struct.unpack_from("=I", buffer.raw, 4)[0]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapInfo:
    """What a map was made from. Sizes in bytes; of a per-CPU map the size of one CPU's value. A ring buffer's entries
    are bytes. ``kind``: ``enum bpf_map_type``."""

    kind: int
    key_size: int
    value_size: int
    max_entries: int
    flags: int


def map_info(fd: int) -> MapInfo:
    """Ask what a map was made from."""
    kind, key, value, entries, flags = struct.unpack_from("=I4xIIII", object_info(fd))
    return MapInfo(kind=kind, key_size=key, value_size=value, max_entries=entries, flags=flags)


def make_map(terms: MapInfo, name: str) -> int:
    """Make a map, and return its descriptor."""
    sizes = (terms.kind, terms.key_size, terms.value_size, terms.max_entries, terms.flags)
    return bpf(MAP_CREATE, struct.pack("=IIIIIII16s", *sizes, 0, 0, name[:_NAME_BYTES].encode()))


def try_array_map(value_bytes: int = 8, entries: int = 1) -> int:
    """Create an array map."""
    return _tried(lambda: bpf(MAP_CREATE, struct.pack("=IIII", _MAP_TYPE_ARRAY, 4, value_bytes, entries)))


def try_ring_buffer() -> int:
    """Create the smallest ring buffer."""
    page = os.sysconf("SC_PAGE_SIZE")
    return _tried(lambda: bpf(MAP_CREATE, struct.pack("=IIII", _MAP_TYPE_RINGBUF, 0, 0, page)))


def try_raw_tracepoint(name: str = "sched_switch") -> int:
    """Load a program that does nothing, and attach it to the raw tracepoint for an instant."""
    try:
        program = load_program(RAW_TRACEPOINT, _RETURN_ZERO)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        return _tried(lambda: attach(program, name))
    finally:
        os.close(program)


def try_kernel_read() -> int:
    """Load a program that reads kernel memory; a lockdown for confidentiality takes that helper from programs.

    Source: kernel/trace/bpf_trace.c (``bpf_tracing_func_proto``, ``LOCKDOWN_BPF_READ_KERNEL``).
    """
    stack = -8
    code = (
        *(_instruction(0xBF, 1, 10), _instruction(0x07, 1, immediate=stack), _instruction(0xB7, 2, immediate=8)),
        *(_instruction(0xB7, 3), _instruction(0x85, immediate=_PROBE_READ_KERNEL), _RETURN_ZERO),
    )
    return _tried(lambda: load_program(RAW_TRACEPOINT, b"".join(code)))


def _instruction(code: int, to: int = 0, source: int = 0, immediate: int = 0) -> bytes:
    """Return ``struct bpf_insn``: of a byte the first four bits in memory order are the register written to."""
    registers = source << 4 | to if sys.byteorder == "little" else to << 4 | source
    return struct.pack("=BBhi", code, registers, 0, immediate)


def try_function_return(function: int) -> int:
    """Load a program that does nothing, and attach it to the return of a kernel function for an instant.

    :param function: its type's number in the kernel's BTF.
    """
    try:
        program = load_program(TRACING, _RETURN_ZERO, attach_type=TRACE_FEXIT, attach_btf_id=function)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        return _tried(lambda: attach(program))
    finally:
        os.close(program)


def try_cpu_clock_event(cpu: int) -> int:
    """Open a disabled CPU-clock event for all tasks of one CPU, as the sampler does."""
    return _tried(lambda: open_software_event(CPU_CLOCK, -1, cpu, period=1_000_000, flags=(DISABLED,)))


def _tried(make: Callable[[], int]) -> int:
    try:
        os.close(make())
    except OSError as error:
        return error.errno or errno.EIO
    return 0
