"""Asks the kernel itself what BPF and perf allow here, with the smallest real call for each question.

Each function returns 0 or the errno that the kernel gave; what was made is closed at once. Not a BPF loader: the probes
go through bcc.

Source: bpf(2), perf_event_open(2), include/uapi/linux/bpf.h (``union bpf_attr``) and linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280, "s390x": 351, "ppc64le": 361, "ppc64": 361}
_PERF = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "loongarch64": 241, "s390x": 331, "ppc64le": 319, "ppc64": 319}

_MAP_CREATE, _PROG_LOAD, _RAW_TRACEPOINT_OPEN = 0, 5, 17
_MAP_TYPE_ARRAY, _MAP_TYPE_RINGBUF = 2, 27
_PROG_TYPE_RAW_TRACEPOINT = 17
_ATTR_BYTES = 120
CPU_CLOCK, TASK_CLOCK = 0, 1
DISABLED, INHERIT = 0, 1
_RETURN_ZERO = bytes.fromhex("b700000000000000 9500000000000000")
"""``r0 = 0; exit``: all other bits are zero, so both byte orders look alike."""


def try_array_map(value_bytes: int = 8, entries: int = 1) -> int:
    """Create an array map."""
    return _closed(*_bpf(_MAP_CREATE, struct.pack("=IIII", _MAP_TYPE_ARRAY, 4, value_bytes, entries)))


def try_ring_buffer() -> int:
    """Create the smallest ring buffer."""
    return _closed(*_bpf(_MAP_CREATE, struct.pack("=IIII", _MAP_TYPE_RINGBUF, 0, 0, os.sysconf("SC_PAGE_SIZE"))))


def try_raw_tracepoint(name: str = "sched_switch") -> int:
    """Load a program that does nothing, and attach it to the raw tracepoint for an instant."""
    code = ctypes.create_string_buffer(_RETURN_ZERO, len(_RETURN_ZERO))
    licence = ctypes.create_string_buffer(b"GPL")
    count = len(_RETURN_ZERO) // 8
    attributes = struct.pack(
        "=IIQQ", _PROG_TYPE_RAW_TRACEPOINT, count, ctypes.addressof(code), ctypes.addressof(licence)
    )
    program, error = _bpf(_PROG_LOAD, attributes)
    if error:
        return error
    try:
        where = ctypes.create_string_buffer(name.encode())
        return _closed(*_bpf(_RAW_TRACEPOINT_OPEN, struct.pack("=QI", ctypes.addressof(where), program)))
    finally:
        os.close(program)


def try_cpu_clock_event(cpu: int) -> int:
    """Open a disabled CPU-clock event for all tasks of one CPU, as the sampler does."""
    return _closed(*open_software_event(CPU_CLOCK, -1, cpu, period_ns=1_000_000, flag=DISABLED))


def open_software_event(config: int, pid: int, cpu: int, *, period_ns: int = 0, flag: int) -> tuple[int, int]:
    """Open a perf event of the kernel's own, and return (descriptor, 0) or (-1, errno).

    :param pid, cpu: -1: all of them. :param flag: number of the one bit that is set among the attribute's bit fields.
    """
    size, software = 64, 1
    bits = 1 << (flag if sys.byteorder == "little" else 63 - flag)
    attributes = struct.pack("=IIQQQQQ", software, size, config, period_ns, 0, 0, bits).ljust(size, b"\0")
    buffer = ctypes.create_string_buffer(attributes, size)
    cloexec = 8
    return _syscall(_PERF, ctypes.byref(buffer), ctypes.c_int(pid), cpu, ctypes.c_int(-1), cloexec)


def _bpf(command: int, attributes: bytes) -> tuple[int, int]:
    # The kernel accepts a longer union than it knows as long as the rest is zero.
    buffer = ctypes.create_string_buffer(attributes.ljust(_ATTR_BYTES, b"\0"), _ATTR_BYTES)
    return _syscall(_BPF, command, ctypes.byref(buffer), _ATTR_BYTES)


def _syscall(numbers: dict[str, int], *arguments: object) -> tuple[int, int]:
    """Return (descriptor, 0) or (-1, errno)."""
    number = numbers.get(platform.machine())
    if number is None:
        return -1, errno.ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    libc.syscall.restype = ctypes.c_long
    result: int = libc.syscall(ctypes.c_long(number), *words)
    return (result, 0) if result >= 0 else (-1, ctypes.get_errno())


def _closed(descriptor: int, error: int) -> int:
    if descriptor >= 0:
        os.close(descriptor)
    return error
