"""Start commands as tasks of cgroups, and wait until a workload really works.

The command is started through ``load/start.py``, which joins the cgroups from inside, on CPUs that the cpuset allows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply.workloads import LOAD_DIRECTORY, Command
from toolkit.errors import ApplyError, HostUnsupportedError
from toolkit.host import procfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.model.cpuset import CpuSet

READY_S = 90.0
"""How long a workload may take to start. The machine may be busy, and a workload that dies is seen at once anyway."""
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/"}


@dataclass(frozen=True, slots=True)
class Started:
    """A main process that works: its pid, when it began, and our handle if it is our child."""

    pid: int
    start_time: int
    process: subprocess.Popen[bytes] | None


def host_program(name: str, package: str) -> str:
    """Return the absolute path of a program.

    :raises HostUnsupportedError: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise HostUnsupportedError(f"{name} is not installed: apt install {package} (or dnf install {package})")
    return str(Path(found).absolute())


def possible_cpus(root: Path = Path("/")) -> CpuSet:
    """Return every CPU id that this kernel may ever have."""
    text = read_control(root / "sys/devices/system/cpu/possible")
    return CpuSet.parse(text or f"0-{(os.cpu_count() or 1) - 1}", "/sys/devices/system/cpu/possible")


def spawn(
    argv: tuple[str, ...],
    *,
    cpus: CpuSet | None,
    procs: tuple[Path, ...],
    stderr: Path | None,
    what: str,
    directory: Path,
) -> subprocess.Popen[bytes]:
    """Start a command in cgroups; when this returns it has been executed.

    :param cpus: CPUs of the cgroup's cpuset; ``None`` if it has none of its own.
    :param procs: ``cgroup.procs`` files in the order of joining.
    :param what: names the command in errors.
    :raises ApplyError: one of the steps before the command failed.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    wide = possible_cpus() if cpus else ()
    lists = (",".join(map(str, those)) for those in (cpus or (), wide))
    step = (str(LOAD_DIRECTORY / "start.py"), str(writer), str(stderr or ""), *lists, str(len(procs)), *map(str, procs))
    try:
        process = subprocess.Popen(
            [sys.executable, "-ISE", *step, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writer,),
            start_new_session=True,
            cwd=directory,
            env=_ENVIRONMENT,
        )
    except OSError as error:
        os.close(reader)
        raise ApplyError(f"{what}: cannot start {sys.executable} ({error.strerror})") from None
    finally:
        os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        problem = stream.read().decode(errors="replace")
    if problem:
        process.wait()
        raise ApplyError(f"{what}: {problem}")
    return process


def await_ready(
    started: Started,
    command: Command,
    *,
    members: Callable[[], Iterable[int]],
    what: str,
    stderr: Path,
    deadline_s: float = READY_S,
) -> None:
    """Wait until the workload's tasks are all there.

    :param members: reads the processes of its cgroup.
    :raises ApplyError: it died (with its last words), or is not there at the deadline.
    """
    deadline = time.monotonic() + deadline_s
    pause_s = 0.001
    while True:
        asked = time.monotonic()
        if not alive(started):
            code = "" if started.process is None else f" with exit code {started.process.wait()}"
            raise ApplyError(f"{what}: the workload died at once{code}: {last_words(stderr)}")
        ready = _workers(started.pid, command, members)
        if ready >= max(command.workers, 1):
            return
        if time.monotonic() > deadline:
            raise ApplyError(
                f"{what}: the workload is not ready after {deadline_s:g} s: {ready} of "
                f"{max(command.workers, 1)} tasks named {command.comm!r}; {last_words(stderr)}"
            )
        # Asking takes CPU time from the workload: on a slow machine at most a third of the time.
        time.sleep(max(pause_s, 2 * (time.monotonic() - asked)))
        pause_s = min(pause_s * 2, 0.05)


def alive(started: Started) -> bool:
    """Say whether the main process is still there."""
    if started.process is not None:
        return started.process.poll() is None
    return procfs.start_time(started.pid) == started.start_time


def _workers(pid: int, command: Command, members: Callable[[], Iterable[int]]) -> int:
    if command.workers == 0:
        return int(_comm(pid) == command.comm)
    return sum(_comm(other) == command.comm and procfs.parent(other) == pid for other in members())


def _comm(pid: int) -> str:
    return (read_control(Path(f"/proc/{pid}/comm")) or "").rstrip("\n")


def last_words(path: Path, limit: int = 400) -> str:
    """Return the end of an error file on one line."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - limit))
            words = stream.read(limit).decode(errors="replace")
    except OSError:
        words = ""
    return " ".join(words.split()) or "it said nothing"
