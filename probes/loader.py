"""Loads the probes: those that an earlier start compiled, or by the helper process that compiles.

The observer's side of the helper: start it, hear its steps, take the descriptors, or say where it died. What the
compiler says goes to a file in memory. Descriptors that were handed over live as long as this process holds them, so
nothing is left in the kernel when it ends.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from probes import compiler, unit
from probes.builder import MAX_MESSAGE, Request
from probes.program import load_all
from toolkit.errors import HostUnsupportedError
from toolkit.host import limits

MAX_DESCRIPTORS = 250
"""The kernel passes 253 at a time."""
STEP_S = 600.0
"""Longest silence between two steps: an emulated machine compiles for half a minute."""
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from probes.builder import main; main(int(sys.argv[2]), int(sys.argv[3]))"
)
_KEPT = ("PATH", "LD_LIBRARY_PATH")
"""All that the helper gets of our environment: CPATH, CPLUS_INCLUDE_PATH, BCC_* and others change what is compiled."""


@dataclass(slots=True)
class LoadedPrograms:
    """Descriptors by name, ours to close; ``left_out``: optional programs that the kernel refused, and why."""

    programs: dict[str, int] = field(default_factory=dict)
    maps: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def close(self) -> None:
        """Free everything."""
        for fd in (*self.programs.values(), *self.maps.values()):
            os.close(fd)
        self.programs.clear()
        self.maps.clear()


def load(request: Request, root: Path, *, keep: bool = True) -> LoadedPrograms:
    """Load what an earlier start has compiled from the same request, else compile it and keep it.

    :param root: the unit is kept below ``root/var/cache/pinproof``.
    :param keep: ``False``: write nothing there.
    :raises HostUnsupportedError: as :func:`compile_and_load`.
    """
    names = tuple(program.name for program in request.programs)
    key = unit.key(compiler.source_text(request.sources), request.settings, names)
    kept = unit.read(root, key)
    if kept is not None:
        # One that is refused is bad, or the host has no room for any (descriptors, memory): the next one takes its
        # place, or says so.
        with contextlib.suppress(HostUnsupportedError, OSError):
            return _load_kept(kept, request)
    return compile_and_load(replace(request, keep_as=key, root=str(root)) if keep else request)


def _load_kept(kept: unit.Unit, request: Request) -> LoadedPrograms:
    loaded = LoadedPrograms(maps=unit.make_maps(kept))
    try:
        fds = loaded.maps.values()
        loaded.programs, loaded.left_out = load_all(
            request.programs, lambda name: unit.bound(kept.programs.get(name, b""), fds)
        )
    except BaseException:
        loaded.close()
        raise
    return loaded


def compile_and_load(request: Request) -> LoadedPrograms:
    """Compile and load in a process of its own.

    :raises HostUnsupportedError: what the helper says, that it died and while doing what, or that it cannot be started.
    """
    with contextlib.ExitStack() as ours:
        try:
            peer, theirs = map(ours.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            said = ours.enter_context(os.fdopen(os.memfd_create("pinproof-compiler"), "rb"))
            with theirs:
                helper = _start(theirs.fileno(), said.fileno())
        except OSError as error:  # too many processes or open files for a limit, too little memory
            raise HostUnsupportedError(f"the probes' compiler cannot be started: {error.strerror or error}") from None
        try:
            return _converse(helper, peer, request, lambda: _tail(said.fileno()))
        finally:
            if helper.poll() is None:
                helper.kill()
            helper.wait()


def _start(socket_fd: int, log: int) -> subprocess.Popen[bytes]:
    # Isolated from PYTHON* and from the folder that we are in, but with our own path: what we can import it can.
    path = [str(Path(entry).absolute()) for entry in sys.path]
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _START, json.dumps(path), str(socket_fd), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env={name: os.environ[name] for name in _KEPT if name in os.environ},
        pass_fds=(socket_fd,),
        start_new_session=True,  # a Ctrl-C is ours: we end it if we end
    )


def _converse(
    helper: subprocess.Popen[bytes], peer: socket.socket, request: Request, said: Callable[[], str]
) -> LoadedPrograms:
    peer.settimeout(STEP_S)
    step = "starting"
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended already: why comes next
        peer.send(request.encode())
    while True:
        try:
            data, fds, flags, _ = socket.recv_fds(peer, MAX_MESSAGE, MAX_DESCRIPTORS)
        except TimeoutError:
            raise HostUnsupportedError(f"the probes' compiler hangs: {step} took more than {STEP_S:.0f} s") from None
        except ConnectionResetError:
            continue  # it closed before it read our request; what it said before is still to come
        if flags & socket.MSG_CTRUNC:  # the kernel keeps what we have no room for
            for fd in fds:
                os.close(fd)
            raise HostUnsupportedError(limits.shortage(OSError(errno.EMFILE, "")))
        if not data:
            raise HostUnsupportedError(_how_it_ended(helper.wait(), step, said()))
        answer = json.loads(data)
        if "step" in answer:
            step = answer["step"]
        elif "refused" in answer:
            raise HostUnsupportedError(" ".join(answer["refused"].split()))
        else:
            names = answer["programs"], answer["maps"]
            return LoadedPrograms(
                programs=dict(zip(names[0], fds, strict=False)),
                maps=dict(zip(names[1], fds[len(names[0]) :], strict=True)),
                left_out=answer["left_out"],
            )


def _how_it_ended(code: int, step: str, said: str) -> str:
    if code < 0:
        try:
            cause = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            cause = f"was killed by signal {-code}"
    else:
        cause = f"ended with exit code {code}"
    return f"the helper that compiles and loads the probes {cause} while {step}" + (f": {said}" if said else "")


def _tail(log: int) -> str:
    """Return the last line that the helper wrote."""
    size = os.fstat(log).st_size
    lines = os.pread(log, 4096, max(0, size - 4096)).decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""
