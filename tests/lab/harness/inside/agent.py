"""The guest's command agent: one forked worker per request, replies as they are ready.

The agent itself stays single-threaded and imports what requests commonly need before the snapshot is taken, so that a
``python`` request starts in milliseconds where a fresh interpreter under software emulation needs a second.
Requests (``op``): ``ping`` sets the wall clock; ``run`` an argument list; ``python`` a source text; ``get`` returns a
tar archive. A reply carries ``id``, ``code`` and the sizes of stdout and stderr in its body.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import wire  # type: ignore[import-not-found]  # beside this file in the guest

IDLE_S = 0.02
TIMED_OUT = 124
"""Exit code of a request that ran out of time, as timeout(1) has it."""

Reply = tuple[int, bytes, bytes]
_KEPT: list[subprocess.Popen[bytes]] = []


def open_port() -> int:
    """Find the port by its name; the kernel numbers ports as it likes."""
    while True:
        for port in Path("/sys/class/virtio-ports").glob("vport*"):
            if (port / "name").read_text().strip() == wire.PORT_NAME:
                return os.open(f"/dev/{port.name}", os.O_RDWR)
        time.sleep(IDLE_S)


def send(port: int, message: bytes) -> None:
    """Write one message whole, whatever other workers write."""
    with Path("/run/lab-agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        view = memoryview(message)
        while view:
            view = view[os.write(port, view) :]


def wait(pid: int, deadline: float) -> int:
    """Wait for a process group's leader; kill the whole group at the deadline."""
    pause = 0.002
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return TIMED_OUT
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def start_command(head: dict[str, Any], stdin: Any, out: Any, err: Any) -> int:
    """Start an argument list in its own session."""
    env = {**os.environ, **head.get("env", {})}
    process = subprocess.Popen(
        head["argv"], stdin=stdin, stdout=out, stderr=err, start_new_session=True, env=env, cwd=head.get("cwd", "/root")
    )
    # Python reaps a forgotten child that has ended already, and `wait` would find none.
    _KEPT.append(process)
    return process.pid


def start_python(source: str, head: dict[str, Any], out: Any, err: Any) -> int:
    """Run a source text in a fork of this interpreter, in its own session."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        os.environ.update(head.get("env", {}))
        os.chdir(head.get("cwd", "/root"))
        sys.path[1:1] = head.get("path", [])
        sys.argv = head.get("argv", ["lab"])
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", 0), write_through=True)
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", 0), write_through=True)
        exec(compile(source, "<lab>", "exec"), {"__name__": "__main__", "ARGS": head.get("args")})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def execute(head: dict[str, Any], body: bytes) -> Reply:
    """Run a command or a source text; its output is kept also when time runs out."""
    deadline = time.monotonic() + head["timeout"]
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if head["op"] == "python":
            pid = start_python(body.decode(), head, out, err)
        else:
            stdin.write(body)
            stdin.seek(0)
            try:
                pid = start_command(head, stdin, out, err)
            except OSError as error:
                return 127, b"", f"{head['argv'][0]}: {error}\n".encode()
        code = wait(pid, deadline)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def get(head: dict[str, Any], body: bytes) -> Reply:
    """Pack a file or a folder."""
    path = Path(head["path"])
    if not path.exists():
        return 1, b"", f"{path}: no such file\n".encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(path, arcname=path.name)
    return 0, packed.getvalue(), b""


def ping(head: dict[str, Any], body: bytes) -> Reply:
    """Set the wall clock, which a restored guest has from the time of its snapshot."""
    time.clock_settime(time.CLOCK_REALTIME, head["now"])
    about = {"uptime_s": float(Path("/proc/uptime").read_text().split()[0]), "bytecode": MAGIC_NUMBER.hex()}
    return 0, json.dumps(about).encode(), b""


OPERATIONS = {"run": execute, "python": execute, "get": get, "ping": ping}


def work(port: int, head: dict[str, Any], body: bytes) -> None:
    """Do one request and reply to it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    began = time.monotonic()
    try:
        code, out, err = OPERATIONS[head["op"]](head, body)
    except Exception:
        code, out, err = 125, b"", traceback.format_exc().encode()
    reply = {"id": head["id"], "code": code, "out": len(out), "seconds": time.monotonic() - began}
    send(port, wire.encode(reply, out + err))


def main() -> None:
    """Serve for ever."""
    for module in sys.argv[1:]:
        try:
            __import__(module)
        except ImportError as error:
            print(f"lab agent: {module}: {error}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    port, decoder = open_port(), wire.Decoder()
    print("lab agent: ready", flush=True)
    while True:
        try:
            data = os.read(port, 1 << 16)
        except OSError:
            data = b""
        if not data:
            time.sleep(IDLE_S)
            continue
        for head, body in decoder.feed(data):
            if os.fork() == 0:
                try:
                    work(port, head, body)
                finally:
                    os._exit(0)


main()
