"""The helper process: compiles the probes, loads every program, hands the descriptors over, and is gone.

The compiler is a library of a hundred megabytes that ends the whole process where it meets something unforeseen. Here
it may: the observer carries none of it, hears before each step what comes next, and says where the helper died.

One message each way over a socket that keeps messages apart (``SOCK_SEQPACKET``), JSON; before the answer, any number
of ``{"step": ...}``. The answer's descriptors are attached to it (``SCM_RIGHTS``), programs first, then maps.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from probes import compiler
from toolkit.errors import HostUnsupportedError
from toolkit.host import bpf_syscalls
from toolkit.host.btf import Btf

KINDS = {"raw_tracepoint": bpf_syscalls.RAW_TRACEPOINT, "perf_event": bpf_syscalls.PERF_EVENT}
MAX_MESSAGE = 1 << 17
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to load.

    :param kind: ``raw_tracepoint`` or ``perf_event``; ignored where ``returns_from`` is set.
    :param returns_from: kernel function at whose return it is to run.
    :param optional: a kernel may refuse it: then the answer says why, and the rest goes on.
    """

    name: str
    kind: str = "raw_tracepoint"
    returns_from: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to compile and load. ``settings``: names and values of ``-D``."""

    sources: tuple[str, ...]
    settings: dict[str, int]
    programs: tuple[Program, ...]

    def encode(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """Read it back."""
        plain = json.loads(data)
        return cls(
            sources=tuple(plain["sources"]),
            settings=plain["settings"],
            programs=tuple(Program(**one) for one in plain["programs"]),
        )


def main(socket_fd: int, parent: int) -> None:
    """Serve one request of the process ``parent`` on a socket that we inherited."""
    die_with(parent)
    with socket.socket(fileno=socket_fd) as peer:
        try:
            answer, fds = _serve(peer)
        except HostUnsupportedError as error:
            answer, fds = {"refused": str(error)}, []
        socket.send_fds(peer, [json.dumps(answer).encode()], fds)
    # Without a word of farewell to the library: its destructors have nothing to do that the kernel does not do.
    os._exit(0)


def die_with(parent: int) -> None:
    """Let the kernel end us when the process that wants the answer ends, by whatever means."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # ended before we asked
        os._exit(1)


def _serve(peer: socket.socket) -> tuple[dict[str, Any], list[int]]:
    def step(what: str) -> None:
        peer.send(json.dumps({"step": what}).encode())

    step("importing bcc")
    bcc = compiler.import_bcc()  # while the observer still reads the kernel's types
    request = Request.decode(peer.recv(MAX_MESSAGE))
    step(f"compiling the probes with bcc {getattr(bcc, '__version__', 'of unknown version')}")
    module = compile_unit(request)
    programs: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for program in request.programs:
        step(f"loading the program {program.name}")
        try:
            programs[program.name] = load(module, program)
        except HostUnsupportedError as error:
            if not program.optional:
                raise
            left_out[program.name] = str(error)
    maps = compiler.maps(module)
    answer = {"programs": list(programs), "maps": list(maps), "left_out": left_out}
    return answer, [*programs.values(), *maps.values()]


def compile_unit(request: Request) -> Any:
    """Compile.

    :raises HostUnsupportedError: it does not; with the compiler's first complaint, which it wrote to our stderr.
    """
    try:
        return compiler.build(compiler.source_text(request.sources), request.settings)
    except HostUnsupportedError:
        raise
    except Exception as error:  # bcc raises bare Exception
        said = _own_stderr().splitlines()
        first = next((line for line in said if "error:" in line), str(error))
        raise HostUnsupportedError(f"the probes do not compile: {first}") from None


def load(module: Any, program: Program) -> int:
    """Load one program; returns its descriptor.

    :raises HostUnsupportedError: the kernel refuses it; with the end of the verifier's log.
    """
    code = compiler.code(module, program.name)
    if not code:
        raise HostUnsupportedError(f"the compiler made no program {program.name}")
    if program.returns_from:
        return _load_return(code, program)
    try:
        return bpf_syscalls.load_program(KINDS[program.kind], code, name=program.name)
    except bpf_syscalls.ProgramRefusedError as error:
        raise HostUnsupportedError(f"the kernel refuses the program {program.name}: {_reason(error)}") from None


def _load_return(code: bytes, program: Program) -> int:
    where = f"a program at the return of {program.returns_from}()"
    btf = Btf.of_kernel()
    function = btf.function_id(program.returns_from) if btf is not None else None
    if function is None:
        raise HostUnsupportedError(f"the kernel refuses {where}: its type information has no such function")
    try:
        return bpf_syscalls.load_program(
            bpf_syscalls.TRACING,
            code,
            name=program.name,
            attach_type=bpf_syscalls.TRACE_FEXIT,
            attach_btf_id=function,
        )
    except bpf_syscalls.ProgramRefusedError as error:
        raise HostUnsupportedError(f"the kernel refuses {where}: {_reason(error)}") from None


def _reason(error: bpf_syscalls.ProgramRefusedError) -> str:
    end = [line for line in error.log.strip().splitlines() if line][-3:]
    return " / ".join([error.strerror or str(error), *end])


def _own_stderr() -> str:
    """Return what the library has written so far: our stderr is a file in memory."""
    sys.stderr.flush()
    try:
        return Path("/proc/self/fd/2").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
