"""System calls that Python has no function for, by name: one table of their numbers for all architectures.

Source: the kernel's arch/*/entry/syscalls/syscall.tbl, and include/uapi/asm-generic/unistd.h for those without one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform

_GENERIC = {"bpf": 280, "perf_event_open": 241}
_POWER = {"bpf": 361, "perf_event_open": 319}
_NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {"bpf": 321, "perf_event_open": 298},
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
    "s390x": {"bpf": 351, "perf_event_open": 331},
    "ppc64le": _POWER,
    "ppc64": _POWER,
}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: object) -> int:
    """Make a system call; integers are passed as ``long``, everything else as ctypes passes it.

    :raises OSError: what the kernel says; ENOSYS where the call's number is not known for this machine.
    """
    number = _NUMBERS.get(platform.machine(), {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, f"the number of {name}(2) is not known for {platform.machine()}")
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result
