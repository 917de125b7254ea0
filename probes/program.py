"""One BPF program: what it is, and how its instructions are loaded.

Source: bpf(2); commit fec56f5890d9 "bpf: Introduce BPF trampoline" (programs at the return of a function); commit
9e15db66136a "bpf: Implement accurate raw_tp context access via BTF" (programs that know what a tracepoint gives them);
commit 15d83c4d7cef "bpf: Allow loading of a bpf_iter program" (programs that run for each object of one kind).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from probes import subprograms
from probes.subprograms import Linked
from toolkit.errors import HostUnsupportedError
from toolkit.host import bpf_syscalls, limits
from toolkit.host.btf import Btf

KINDS = {"raw_tracepoint": bpf_syscalls.RAW_TRACEPOINT, "perf_event": bpf_syscalls.PERF_EVENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to load.

    :param kind: ``raw_tracepoint`` or ``perf_event``; ignored where one of the next four is set.
    :param tracepoint: whose arguments it reads by their types: no helper for a member. It can be attached there alone.
    :param returns_from: kernel function at whose return it is to run.
    :param enters: kernel function at whose begin it is to run.
    :param iterates: over which of the kernel's objects it runs when it is read (``task``).
    :param optional: a kernel may refuse it: then the answer says why, and the rest goes on.
    """

    name: str
    kind: str = "raw_tracepoint"
    tracepoint: str = ""
    returns_from: str = ""
    enters: str = ""
    iterates: str = ""
    optional: bool = False


def load_all(
    programs: tuple[Program, ...], code_of: Callable[[str], bytes], step: Callable[[str], None] = lambda _what: None
) -> tuple[dict[str, int], dict[str, str]]:
    """Load programs; returns descriptors by name, and what the kernel refused that may be refused, and why.

    :param code_of: a program's instructions; empty: the compiler made none. :param step: hears what comes next.
    :raises HostUnsupportedError: the kernel refuses another; none stays loaded.
    """
    loading = _Loading(programs, code_of, step)
    others: list[threading.Thread] = []
    try:
        for number in range(1, min(len(os.sched_getaffinity(0)), len(programs))):
            other = threading.Thread(target=loading.work, name=f"load-{number}")
            other.start()
            others.append(other)
        loading.work()
    except BaseException as error:
        loading.errors.append(error)
    for other in others:
        other.join()
    return loading.result()


class _Loading:
    """Programs on their way into the kernel: what has one there takes the next, in their order.

    The verifier takes four fifths of all loading, nearly all of it for five programs, and works outside Python's lock.
    """

    def __init__(
        self, programs: tuple[Program, ...], code_of: Callable[[str], bytes], step: Callable[[str], None]
    ) -> None:
        self._programs, self._waiting = programs, iter(programs)
        self._code_of, self._step = code_of, step
        self._lock = threading.Lock()
        self._loaded: dict[str, int] = {}
        self._left_out: dict[str, str] = {}
        self.errors: list[BaseException] = []
        """Why it ends before all are loaded."""

    def work(self) -> None:
        """Load programs until none waits, or one failed that is needed."""
        try:
            while (program := self._take()) is not None:
                self._load(*program)
        except BaseException as error:
            self.errors.append(error)

    def _take(self) -> tuple[Linked, Program] | None:
        with self._lock:
            program = None if self.errors else next(self._waiting, None)
            if program is None:
                return None
            self._step(f"loading the program {program.name}")
            return subprograms.link(self._code_of(program.name), self._code_of), program

    def _load(self, code: Linked, program: Program) -> None:
        try:
            self._loaded[program.name] = load(code, program)
        except HostUnsupportedError as error:
            if not program.optional:
                raise
            self._left_out[program.name] = str(error)

    def result(self) -> tuple[dict[str, int], dict[str, str]]:
        """Return what :func:`load_all` returns, when all work has ended."""
        if self.errors:
            for fd in self._loaded.values():
                os.close(fd)
            raise self.errors[0]
        names = [program.name for program in self._programs]
        return {name: self._loaded[name] for name in names if name in self._loaded}, self._left_out


def load(linked: Linked, program: Program) -> int:
    """Load one program; returns its descriptor.

    :param linked: its instructions, with descriptors of this process where they name maps.
    :raises HostUnsupportedError: the kernel refuses it; with the end of the verifier's log. Or the code is empty.
    """
    if not linked.code:
        raise HostUnsupportedError(f"the compiler made no program {program.name}")
    if program.returns_from:
        return _load_tracing(linked, program, f"a program at the return of {program.returns_from}()")
    if program.enters:
        return _load_tracing(linked, program, f"a program at the begin of {program.enters}()")
    if program.tracepoint or program.iterates:
        return _load_tracing(linked, program, f"the program {program.name}")
    try:
        return _load(linked, program, KINDS[program.kind])
    except bpf_syscalls.ProgramRefusedError as error:
        raise HostUnsupportedError(f"the kernel refuses the program {program.name}: {_reason(error)}") from None


def _load(linked: Linked, program: Program, kind: int, attach_type: int = 0, attach_btf_id: int = 0) -> int:
    types = subprograms.types(program.name, linked.functions) if linked.functions else (b"", b"")
    return bpf_syscalls.load_program(
        kind, linked.code, name=program.name, attach_type=attach_type, attach_btf_id=attach_btf_id, functions=types
    )


def _load_tracing(linked: Linked, program: Program, what: str) -> int:
    btf = Btf.of_kernel()
    function = program.returns_from or program.enters
    kind = bpf_syscalls.TRACE_FEXIT if program.returns_from else bpf_syscalls.TRACE_FENTRY
    if program.iterates:
        # What such a program is given has the type of this function's arguments.
        function, kind = f"bpf_iter_{program.iterates}", bpf_syscalls.TRACE_ITER
    place, number = f"function {function}", None
    if program.tracepoint:
        place, kind = f"tracepoint {program.tracepoint}", bpf_syscalls.TRACE_RAW_TP
    if btf is not None:
        number = btf.tracepoint_id(program.tracepoint) if program.tracepoint else btf.function_id(function)
    if number is None:
        raise HostUnsupportedError(f"the kernel refuses {what}: its type information has no {place}")
    try:
        return _load(linked, program, bpf_syscalls.TRACING, kind, number)
    except bpf_syscalls.ProgramRefusedError as error:
        raise HostUnsupportedError(f"the kernel refuses {what}: {_reason(error)}") from None


def _reason(error: bpf_syscalls.ProgramRefusedError) -> str:
    short = limits.shortage(error)
    if short:
        return short
    end = [line for line in error.log.strip().splitlines() if line][-3:]
    return " / ".join([error.strerror or str(error), *end])
