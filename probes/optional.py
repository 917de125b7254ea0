"""Programs that a kernel may refuse: attached where they cost nothing, or where the user asked for the dear way."""

from __future__ import annotations

from typing import NamedTuple

from probes.programs import Programs
from toolkit.host import bpf_syscalls
from toolkit.model.blind_spots import TELLS_AUTHORS


class Attached(NamedTuple):
    """An optional program, its descriptor, and that of its attachment."""

    name: str
    program: int
    link: int


def attach_optional(loaded: Programs, on_return: str, on_exit: str) -> Attached | str:
    """Attach a program to the return of its function; returns why the kernel does not take it, and how it is seen.

    :param on_exit: the program that sees the same at the exit of every system call: in its place, and only with
        ``trace_syscalls``, because everything pays for it.
    """
    _, complaint = loaded.optional(on_return)
    syscalls = ((on_exit, "sys_exit"),) if loaded.options.trace_syscalls else ()
    for name, tracepoint in ((on_return, ""), *syscalls):
        program, _ = loaded.optional(name)
        if program is None:
            continue
        try:
            return Attached(name, program, bpf_syscalls.attach(program, tracepoint))
        except OSError as error:
            complaint = complaint or f"{name}: {error.strerror}"
    dear, _ = loaded.optional(on_exit)
    way = (
        ""
        if dear is None or loaded.options.trace_syscalls
        else f"; {TELLS_AUTHORS} sees it at the cost of every system call"
    )
    return f"{complaint}{way}"
