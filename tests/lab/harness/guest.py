"""A guest as tests see it: run commands, run Python, move files, put the project in.

Requests may overlap (:meth:`Guest.start`); the agent answers each when it is done.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import queue
import socket
import tarfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.harness.architecture import Architecture
from tests.lab.harness.guest_files import PROJECT, packed, project_files
from tests.lab.harness.inside import wire
from tests.lab.harness.machine import Machine
from tests.lab.harness.topology import Topology

GRACE_S = 30
"""How much later than the guest the host gives a request up: the agent reports a timeout with the output so far."""


class CommandError(AssertionError):
    """A command that had to succeed did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What a command left behind. Code 124 means that its time ran out."""

    what: str
    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """Standard error as text."""
        return self.err.decode(errors="replace")

    def check(self) -> Completed:
        """Return itself if the command succeeded.

        :raises CommandError: with both outputs.
        """
        if self.code:
            raise CommandError(f"{self.what}: exit code {self.code}\n{self.text[-4000:]}\n{self.error_text[-4000:]}")
        return self


class Pending:
    """A request under way."""

    def __init__(self, guest: Guest, what: str, timeout_s: float) -> None:
        self.what = what
        self._guest = guest
        self._deadline = time.monotonic() + timeout_s + GRACE_S
        self.answers: queue.SimpleQueue[Completed] = queue.SimpleQueue()
        self._answer: Completed | None = None

    @property
    def ended(self) -> bool:
        """Whether the answer is there."""
        return self._answer is not None or not self.answers.empty()

    def result(self, beside: Pending | None = None) -> Completed:
        """Wait for the answer.

        :param beside: a request that has to go on meanwhile.
        :raises CommandError: that one ended.
        :raises MachineError: the guest ended, or its agent does not answer.
        """
        while self._answer is None:
            try:
                self._answer = self.answers.get(timeout=0.5)
            except queue.Empty:
                if self._guest.machine.ended:
                    raise self._guest.machine.error(f"the guest ended during: {self.what}") from None
                if beside is not None and beside.ended:
                    ended = beside.result()
                    raise CommandError(f"{beside.what} ended with exit code {ended.code}\n{ended.error_text}") from None
                if time.monotonic() > self._deadline:
                    raise self._guest.machine.error(f"no answer to: {self.what}") from None
        return self._answer


class Guest:
    """A running guest."""

    def __init__(
        self, topology: Topology, architecture: Architecture, kernel: str, release: str, machine: Machine
    ) -> None:
        self.topology = topology
        self.architecture = architecture
        self.kernel = kernel
        self.release = release
        self.machine = machine
        self._ids = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self._same_bytecode = False
        self._socket: socket.socket = machine.connect("agent")
        threading.Thread(target=self._receive, daemon=True).start()

    def __str__(self) -> str:
        return f"{self.topology.name}/{self.kernel}"

    def wait_ready(self, timeout_s: float) -> float:
        """Wait for the agent and set the guest's clock; return the guest's uptime in seconds."""
        answer = self._request({"op": "ping", "now": time.time()}, b"", "ping", timeout_s).result().check()
        about = json.loads(answer.text)
        self._same_bytecode = about["bytecode"] == importlib.util.MAGIC_NUMBER.hex()
        return float(about["uptime_s"])

    def start(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 60,
        env: Mapping[str, str] | None = None,
        cwd: str = "/root",
    ) -> Pending:
        """Start a command and do not wait for it."""
        head = {"op": "run", "argv": list(argv), "timeout": timeout_s, "env": dict(env or {}), "cwd": cwd}
        return self._request(head, stdin, " ".join(argv), timeout_s)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 60,
        env: Mapping[str, str] | None = None,
        cwd: str = "/root",
    ) -> Completed:
        """Run a command to its end, whatever its exit code."""
        return self.start(argv, stdin=stdin, timeout_s=timeout_s, env=env, cwd=cwd).result()

    def sh(self, script: str, *, timeout_s: float = 60) -> str:
        """Run a shell script that has to succeed; return its output without surrounding white space."""
        return self.run(["sh", "-euc", script], timeout_s=timeout_s).check().text.strip()

    def python(
        self,
        source: str,
        args: Any = None,
        *,
        argv: Sequence[str] = ("lab",),
        cwd: str = "/root",
        timeout_s: float = 60,
    ) -> Completed:
        """Run Python source in a fork of the agent's warm interpreter; the project is importable.

        :param args: JSON-ready value, visible as ``ARGS``.
        """
        return self.start_python(source, args, argv=argv, cwd=cwd, timeout_s=timeout_s).result()

    def start_python(
        self,
        source: str,
        args: Any = None,
        *,
        argv: Sequence[str] = ("lab",),
        cwd: str = "/root",
        timeout_s: float = 60,
    ) -> Pending:
        """Start Python source as :meth:`python` does, and do not wait for it."""
        head = {"op": "python", "args": args, "argv": list(argv), "timeout": timeout_s, "path": [PROJECT], "cwd": cwd}
        return self._request(head, source.encode(), source.strip().splitlines()[0], timeout_s)

    def read(self, path: str) -> str:
        """Read a small text file of the guest, for instance of sysfs."""
        return self.run(["cat", path]).check().text

    def put(self, files: Mapping[str, bytes], folder: str = "/") -> None:
        """Write files below a folder of the guest."""
        self._put(packed((name, data, 0o755) for name, data in files.items()), folder)

    def get(self, path: str, folder: Path) -> Path:
        """Copy a file or a folder of the guest into a folder of the host; return its path there."""
        answer = self._request({"op": "get", "path": path}, b"", f"get {path}", 120).result().check()
        with tarfile.open(fileobj=io.BytesIO(answer.out)) as archive:
            archive.extractall(folder)
        return folder / Path(path).name

    def put_project(self, *extra: str) -> None:
        """Put the current tree into the guest, with the ``pinproof`` command; ``extra`` names more of its folders."""
        folders = ("toolkit", "probes", "validators", *extra)
        self._put(packed(project_files(folders, with_bytecode=self._same_bytecode)), PROJECT)
        self.put({"usr/local/bin/pinproof": LAUNCHER.encode()})

    def pinproof(self, *arguments: str, timeout_s: float = 120) -> Completed:
        """Run the ``pinproof`` command, whatever its exit code, in the warm interpreter."""
        return self.python(COMMAND, argv=["pinproof", *arguments], timeout_s=timeout_s)

    def pytest(self, *arguments: str, timeout_s: float = 600) -> Completed:
        """Run the project's own tests inside the guest."""
        self.put_project("tests")
        source = "import pytest\nraise SystemExit(pytest.main(ARGS))"
        return self.python(source, ["-p", "no:cacheprovider", *arguments], cwd=PROJECT, timeout_s=timeout_s)

    def close(self) -> None:
        """End the guest."""
        self.machine.close()
        self._socket.close()

    def _put(self, packed: bytes, folder: str) -> None:
        # By a program, not by the agent's own interpreter: a thousand files take that five seconds.
        unpack = ["sh", "-euc", 'mkdir -p "$0" && exec tar -xf - -C "$0"', folder]
        self.run(unpack, stdin=packed, timeout_s=120).check()

    def _request(self, head: dict[str, Any], body: bytes, what: str, timeout_s: float) -> Pending:
        pending = Pending(self, what, timeout_s)
        with self._lock:
            number = next(self._ids)
            self._pending[number] = pending
            try:
                self._socket.sendall(wire.encode({**head, "id": number}, body))
            except OSError as error:
                raise self.machine.error(f"the guest's agent cannot be reached ({error})") from None
        return pending

    def _receive(self) -> None:
        decoder = wire.Decoder()
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            for head, body in decoder.feed(data):
                with self._lock:
                    pending = self._pending.pop(head["id"], None)
                if pending is not None:
                    out, err = body[: head["out"]], body[head["out"] :]
                    pending.answers.put(
                        Completed(what=pending.what, code=head["code"], out=out, err=err, seconds=head["seconds"])
                    )


COMMAND = "from toolkit.__main__ import main\nraise SystemExit(main())"
"""The entry point that pyproject.toml names."""

LAUNCHER = f"""#!/bin/sh
PYTHONPATH={PROJECT}:$PYTHONPATH exec /usr/bin/python3 -m toolkit "$@"
"""
