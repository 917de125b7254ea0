"""Opens the kernel's own perf events (clocks, counters), and lets a BPF program run when one fires.

Source: perf_event_open(2), include/uapi/linux/perf_event.h (``struct perf_event_attr``, ``PERF_EVENT_IOC_*``).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys

from toolkit.host.syscalls import call

CPU_CLOCK, TASK_CLOCK = 0, 1
DISABLED, INHERIT, FREQUENCY = 0, 1, 10
"""Numbers of bits among the attribute's bit fields."""

_SOFTWARE = 1
_ATTR_BYTES = 64  # PERF_ATTR_SIZE_VER0: every kernel takes it
_CLOSE_ON_EXEC = 8
# _IO('$', 0) and _IOW('$', 8, __u32), in the two encodings of ioctl numbers that there are.
_NO_DATA, _WRITE = (1 << 29, 1 << 31) if os.uname().machine.startswith("ppc") else (0, 1 << 30)
_ENABLE = _NO_DATA | ord("$") << 8
_SET_BPF = _WRITE | 4 << 16 | ord("$") << 8 | 8


def open_software_event(config: int, pid: int, cpu: int, *, period: int = 0, flags: tuple[int, ...] = ()) -> int:
    """Open an event of the kernel's own and return its descriptor.

    :param pid, cpu: -1: all of them. :param period: ns (a clock) or events between two samples; with
        :data:`FREQUENCY` samples a second.
    :raises OSError: what the kernel says.
    """
    bits = sum(1 << (flag if sys.byteorder == "little" else 63 - flag) for flag in flags)
    attributes = struct.pack("=IIQQQQQ", _SOFTWARE, _ATTR_BYTES, config, period, 0, 0, bits)
    buffer = ctypes.create_string_buffer(attributes.ljust(_ATTR_BYTES, b"\0"), _ATTR_BYTES)
    return call("perf_event_open", ctypes.byref(buffer), ctypes.c_int(pid), cpu, ctypes.c_int(-1), _CLOSE_ON_EXEC)


def run_on_cpu_clock(program: int, cpu: int, hz: int) -> int:
    """Run a BPF program ``hz`` times a second on a CPU, whatever runs there, until the returned descriptor is closed.

    :raises OSError: ENODEV where the CPU is offline.
    """
    event = open_software_event(CPU_CLOCK, -1, cpu, period=hz, flags=(DISABLED, FREQUENCY))
    try:
        fcntl.ioctl(event, _SET_BPF, program)
        fcntl.ioctl(event, _ENABLE, 0)
    except BaseException:
        os.close(event)
        raise
    return event
