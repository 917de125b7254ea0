"""Start commands as tasks of cgroups, and wait until a workload really works.

A command starts as a shell that sleeps while it is put on CPUs that the cpuset allows and into its cgroups; then it
executes the command, with new memory on the nodes that the cpuset allows.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.apply.cgroups import write_once
from toolkit.apply.workloads import SHELL, Command, Programs, uses_stress_ng
from toolkit.errors import ApplyError, HostUnsupportedError
from toolkit.host import procfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import Workload

if TYPE_CHECKING:
    import psutil

READY_S = 90.0
"""How long a workload may take to start. The machine may be busy, and a workload that dies is seen at once anyway."""
_GATE = 'read -r go && exec "$@" </dev/null'
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_ASKING = threading.Lock()
"""Threads wait for their workloads side by side; only one of them reads /proc at a time."""
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/"}


@dataclass(frozen=True, slots=True)
class Started:
    """A main process: its pid, and what distinguishes it from a later process of that number.

    :param process: our handle if it is our child, psutil's if a runtime started it; ``None``: it was gone at once.
    """

    pid: int
    process: subprocess.Popen[bytes] | psutil.Process | None

    @classmethod
    def by_a_runtime(cls, pid: int) -> Started:
        """Take hold of a process that is not our child."""
        import psutil  # here, as below: most verbs start nothing, and it costs as much as the rest of this file

        try:
            return cls(pid, psutil.Process(pid))
        except psutil.NoSuchProcess:
            return cls(pid, None)


def host_program(name: str, package: str) -> str:
    """Return the absolute path of a program.

    :raises HostUnsupportedError: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise HostUnsupportedError(f"{name} is not installed: apt install {package} (or dnf install {package})")
    return str(Path(found).absolute())


def programs(workload: Workload, *, python: str, load: str, scratch: str) -> Programs:
    """Return where a workload finds what it may start; where it runs decides the rest.

    :raises HostUnsupportedError: one that it uses is not installed.
    """
    return Programs(
        python=python,
        sleep=host_program("sleep", "coreutils"),
        # Looked up only if it is used: a host without it can still run the other loads.
        stress_ng=host_program("stress-ng", "stress-ng") if uses_stress_ng(workload) else "",
        load=load,
        scratch=scratch,
    )


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
    pin: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command in cgroups; when this returns the command has been released to run.

    A sleeping shell is made a member, and then executes the command: no running task is ever moved, and the cgroup pays
    for nothing but the command. If pinproof dies before that, the shell reads the end of its pipe and exits.

    :param cpus: CPUs of the cgroup's cpuset; ``None`` if it has none of its own.
    :param procs: ``cgroup.procs`` files in the order of joining.
    :param what: names the command in errors.
    :param pin: ``cpus`` stay its affinity; else they only let it in, and it then has all that the cpuset allows.
    :raises ApplyError: one of the steps before the command failed.
    """
    with contextlib.ExitStack() as opened:
        errors = subprocess.DEVNULL
        if stderr is not None:
            with _step(what, "open its error file"):
                errors = os.open(stderr, _APPEND, 0o600)
            opened.callback(os.close, errors)
        with _step(what, f"start {SHELL}"):
            process = subprocess.Popen(
                (SHELL, "-c", _GATE, "sh", *argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                cwd=directory,
                env=_ENVIRONMENT,
            )
    try:
        _admit(process.pid, cpus, procs, what, pin=pin)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:  # killed just now: its waiter reports that
            process.stdin.write(b"\n")
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process


def _admit(pid: int, cpus: CpuSet | None, procs: tuple[Path, ...], what: str, *, pin: bool) -> None:
    """Make a task a member."""
    # An observer of a busy machine may have raised its own priority; a load must have that of a container.
    with _step(what, "set the priority"):
        os.setpriority(os.PRIO_PROCESS, pid, 0)
    # A task that joins a cpuset is put on its CPUs first, so that it never runs outside. A pinned task joins first: the
    # cpuset that it comes from may not have its CPUs.
    for step in (_join, _set_affinity) if pin else (_set_affinity, _join):
        step(pid, cpus, procs, what)
    if cpus and not pin:
        # The kernel keeps what the cpuset allows, now and after it has changed.
        with _step(what, "widen the affinity"):
            os.sched_setaffinity(pid, possible_cpus())


def _set_affinity(pid: int, cpus: CpuSet | None, procs: tuple[Path, ...], what: str) -> None:
    if cpus:
        with _step(what, "set the affinity"):
            os.sched_setaffinity(pid, cpus)


def _join(pid: int, cpus: CpuSet | None, procs: tuple[Path, ...], what: str) -> None:
    for path in procs:
        with _step(what, f"join {path}"):
            write_once(path, str(pid))


@contextlib.contextmanager
def _step(what: str, name: str) -> Iterator[None]:
    """Name the step that the kernel refuses."""
    try:
        yield
    except OSError as error:
        raise ApplyError(f"{what}: {name}: {error.strerror}") from None


def await_ready(
    started: Started,
    command: Command,
    *,
    what: str,
    stderr: Path,
    deadline_s: float = READY_S,
) -> None:
    """Wait until the workload's tasks are all there.

    :raises ApplyError: it died (with its last words), or is not there at the deadline.
    """
    deadline = time.monotonic() + deadline_s
    pause_s = 0.001
    while True:
        with _ASKING:
            asked = time.monotonic()
            if not alive(started):
                ours = started.process if isinstance(started.process, subprocess.Popen) else None
                code = "" if ours is None else f" with exit code {ours.wait()}"
                raise ApplyError(f"{what}: the workload died at once{code}: {last_words(stderr)}")
            ready = _workers(started.pid, command)
            if ready >= max(command.workers, 1):
                return
            # Asking takes CPU time from the workload: on a slow machine at most a third of the time.
            time.sleep(2 * (time.monotonic() - asked))
        if time.monotonic() > deadline:
            raise ApplyError(
                f"{what}: the workload is not ready after {deadline_s:g} s: {ready} of "
                f"{max(command.workers, 1)} tasks named {command.comm!r}; {last_words(stderr)}"
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.05)


def alive(started: Started) -> bool:
    """Return whether the main process still exists."""
    if isinstance(started.process, subprocess.Popen):
        return started.process.poll() is None
    return started.process is not None and started.process.is_running()


def _workers(pid: int, command: Command) -> int:
    # Names are read as the kernel keeps them: psutil completes a cut one from the command line.
    if command.workers == 0:
        return int(procfs.comm(pid) == command.comm)
    children = procfs.children(pid)
    if children is None:
        children = _children_by_asking_all(pid)
    return sum(procfs.comm(other) == command.comm for other in children)


def _children_by_asking_all(pid: int) -> list[int]:
    """Return the children where the kernel does not list them: every process of the machine is asked for its parent."""
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return []


def last_words(path: Path, limit: int = 400) -> str:
    """Return the end of an error file on one line."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - limit))
            words = stream.read(limit).decode(errors="backslashreplace")
    except OSError:
        words = ""
    return " ".join(words.split()) or "no message"
