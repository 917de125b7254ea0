"""The helper process: compiles the probes, loads every program, hands the descriptors over, and is gone.

The compiler is a library of a hundred megabytes that ends the whole process where it meets something unforeseen. Here
it may: the observer carries none of it, hears before each step what comes next, and says where the helper died.

One message each way over a socket that keeps messages apart (``SOCK_SEQPACKET``), JSON; before the answer, any number
of ``{"step": ...}``. The answer's descriptors are attached to it (``SCM_RIGHTS``), programs first, then maps.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from probes import compiler, subprograms, unit
from probes.program import Program, load_all
from toolkit.errors import HostUnsupportedError

MAX_MESSAGE = 1 << 17
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to compile and load. ``settings``: names and values of ``-D``.

    :param keep_as: the name under which the compiled unit is kept for the next start; empty: it is not.
    :param root: below which it is kept.
    """

    sources: tuple[str, ...]
    settings: dict[str, int]
    programs: tuple[Program, ...]
    keep_as: str = ""
    root: str = "/"

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
            keep_as=plain["keep_as"],
            root=plain["root"],
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
    bcc = compiler.version()
    request = Request.decode(peer.recv(MAX_MESSAGE))
    step(f"compiling the probes with {bcc}")
    module = compile_unit(request)
    # Asked in the step in which each is loaded: there the library may die.
    code_of = functools.cache(lambda name: compiler.code(module, name))
    try:
        programs, left_out = load_all(request.programs, code_of, step)
    except HostUnsupportedError as error:
        by = f"compiled by {compiler.version()} for Linux {os.uname().release}"
        raise HostUnsupportedError(f"{error} ({by})") from None
    maps = compiler.maps(module)
    names = [one.name for one in request.programs]
    if request.keep_as:
        unit.keep(
            Path(request.root),
            request.keep_as,
            unit.unit_of({name: code_of(name) for name in (*names, *subprograms.FUNCTIONS)}, maps),
        )
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
        raise HostUnsupportedError(f"the probes do not compile with {compiler.version()}: {first}") from None


def _own_stderr() -> str:
    """Return what the library has written so far: our stderr is a file in memory."""
    sys.stderr.flush()
    try:
        return Path("/proc/self/fd/2").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
