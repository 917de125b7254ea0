"""The kubelet's process: which it is, what it was told, when it started, and which version its program says.

A kubelet writes its version into no file, and its metrics need credentials; but which feature gates are on by default
depends on it. ``kubelet --version`` is run as root, so the program must be root's already: a process of root in our own
mount namespace, whose file only root may write. A container's root, or anything that calls a process ``kubelet``, is
not asked.

Source: proc(5) (``/proc/pid/exe``, ``/proc/pid/ns``); Kubernetes documentation, kubelet ``--version``.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.namespaces import FIRST
from toolkit.host.procfs import ticks_of
from toolkit.kubernetes.kubelet_version import series_of
from toolkit.kubernetes.releases import ALLOCATED_STATE
from toolkit.model.state_files import KUBELETS
from toolkit.regular_file import small_file
from toolkit.sources.kubelet.configuration import arguments_of, serves
from toolkit.sources.kubelet.pod_paths import is_of_pods

EMBEDDING = tuple(name.encode() for name in KUBELETS if name != "kubelet")
"""Programs that are a kubelet among other things."""


INIT = 1
"""The process that starts the machine's others; its files are the machine's."""


def numbers(folder: Path) -> list[int]:
    """Return the entries of a folder that are numbers, ascending.

    :raises OSError: there is no such folder.
    """
    with os.scandir(folder) as entries:
        return sorted(int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit())


def kubelet_arguments(proc: Path) -> tuple[str, ...] | None:
    """Return the running kubelet's arguments without its own name; ``None``: none runs."""
    pid = kubelet_pid(proc)
    return None if pid is None else process_arguments(proc, pid)


def kubelet_pid(proc: Path) -> int | None:
    """Return the process that is the kubelet; ``None``: none runs.

    A process of a pod may call itself so: those below ``kubepods`` are skipped.
    """
    try:
        pids = numbers(proc)
    except OSError:
        return None
    return next((pid for pid in pids if is_kubelet(proc, pid)), None)


def process_named(proc: Path, name: str) -> int | None:
    """Return the first process of the node, and of no pod, that calls itself so; ``None``: there is none."""
    with contextlib.suppress(OSError):
        return next((pid for pid in numbers(proc) if _is_called(proc, pid, (name.encode(),))), None)
    return None


def is_kubelet(proc: Path, pid: int) -> bool:
    """Whether a process calls itself so, is none of a pod, and runs a node.

    One that only prints its version does not, and neither does one that has no words: it has ended, or is still taking
    its program's place (exec).
    """
    return kubelet_words(proc, pid) is not None


def kubelet_words(proc: Path, pid: int) -> tuple[str, ...] | None:
    """Return the arguments of a process that is a kubelet (:func:`is_kubelet`), as far as they can be read."""
    if not _is_called(proc, pid, (b"kubelet",)):
        return None
    words = small_file(f"{proc}/{pid}/cmdline")
    found = arguments_of((words or b"").decode("utf-8", "replace"))
    return found if words is None or (words and serves(found)) else None


def embedding(proc: Path) -> str:
    """Return the name of a process in which a kubelet runs with the rest of Kubernetes; empty: there is none.

    Its arguments are not those of a kubelet, so nothing else is read of it.
    """
    with contextlib.suppress(OSError):
        found = next((pid for pid in numbers(proc) if _is_called(proc, pid, EMBEDDING)), None)
        if found is not None:
            return (small_file(f"{proc}/{found}/comm") or b"").strip().decode("utf-8", "replace")
    return ""


def _is_called(proc: Path, pid: int, names: tuple[bytes, ...]) -> bool:
    folder = f"{proc}/{pid}"
    if (small_file(f"{folder}/comm") or b"").strip() not in names:
        return False
    return not is_of_pods((small_file(f"{folder}/cgroup") or b"").decode("utf-8", "replace").replace("\n", "/"))


def process_arguments(proc: Path, pid: int) -> tuple[str, ...]:
    """Return a process's arguments without its own name; one that ends has none."""
    return arguments_of((small_file(f"{proc}/{pid}/cmdline") or b"").decode("utf-8", "replace"))


def start_ticks(proc: Path, pid: int) -> int | None:
    """Return when a process started, in clock ticks since the machine did; ``None``: nothing says it."""
    return ticks_of((small_file(f"{proc}/{pid}/stat") or b"").decode("utf-8", "replace"))


def started_s(ticks: int) -> float:
    """Return when a process of this machine started, by the clock that dates files. :param ticks: its."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + (ticks + 1) / os.sysconf("SC_CLK_TCK")


SEARCH_S = 60.0
"""So often the kubelet is looked for among all processes although the one that is known runs: another of a lower number
may call itself so. One that ends, or calls itself otherwise, is looked for at once."""


class KubeletProcess:
    """Which process is the kubelet, by its number; what it says is read each time, and holds while none runs."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self.words: tuple[str, ...] | None = None
        """Of its command line, without its own name, when it was looked at last; ``None``: none runs."""
        self._searched_s = 0.0
        self._said: tuple[str, ...] | None = None
        self._started: tuple[int, int] | None = None
        self._version: tuple[int | None, str] | None = None
        """What was answered when a kubelet of a number was asked for its version last."""
        self._config: dict[str, bytes] = {}
        """What the kubelet of this number and start was configured with when it was first seen."""

    def pid(self, proc: Path) -> int | None:
        """Return the process; ``None``: none runs."""
        now_s = time.monotonic()
        again = self._pid is not None and now_s - self._searched_s < SEARCH_S
        self.words = kubelet_words(proc, self._pid) if again and self._pid is not None else None
        if self.words is None:
            self._pid, self._searched_s = kubelet_pid(proc), now_s
            self.words = None if self._pid is None else process_arguments(proc, self._pid)
        return self._pid

    def said(self, arguments: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return a kubelet's arguments as read now, or those of before where none runs, or it is just ending.

        A restart changes no promise: where its files and sockets are is known meanwhile by what it was told before.
        """
        self._said = arguments or self._said
        return self._said

    def version(self, ask: Callable[[], str]) -> str:
        """Return the version of the kubelet that runs. :param ask: asks it; each process is asked once."""
        if self._version is None or self._version[0] != self._pid:
            self._version = self._pid, ask()
        return self._version[1]

    def configured(self, ticks: int | None, files: dict[str, bytes]) -> dict[str, bytes]:
        """Return the files of the configuration with which the kubelet runs: it reads them when it starts, then never.

        What is edited later is in force from its next start on; while none runs what was in force before holds.

        :param ticks: when it started (:func:`start_ticks`).
        :param files: as they are now: those of a kubelet that is seen for the first time, or whose start nothing says.
        """
        if self._pid is not None:
            started = None if ticks is None else (self._pid, ticks)
            if started is None or started != self._started or not self._config:
                self._started, self._config = started, {} if started is None else files
        return self._config or files


def may_have_begun(proc: Path, since_ns: int) -> bool:
    """Whether a kubelet may have begun since then (CLOCK_MONOTONIC): none runs, one is younger, or one does not say it.

    All of them are looked at: several nodes may run on one machine. What a kubelet wrote since then that is older was
    written by one that did not restart.
    """
    try:
        found = [pid for pid in numbers(proc) if is_kubelet(proc, pid)]
    except OSError:
        return True
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    for pid in found:
        ticks = start_ticks(proc, pid)
        if ticks is None or (ticks + 1) * (1_000_000_000 // os.sysconf("SC_CLK_TCK")) - boot_ns >= since_ns:
            return True
    return not found


DEADLINE_S = 30.0
"""A kubelet that is asked for its version on an emulated machine at work took more than 10 s."""
MAX_WORDS = 4096
_SAID = re.compile(rb"^Kubernetes (v\d[0-9A-Za-z.+-]{0,60})$", re.MULTILINE)
_ANY = re.compile(rb"\b(v?\d+\.\d+\.\d+[0-9A-Za-z.+~-]{0,60})")
"""What containerd, CRI-O and dockerd print has one version in its first line, among other words."""


def version_of(pid: int, proc: Path) -> str:
    """Return the version of a running kubelet, such as ``v1.36.2``; empty where it is not known.

    :param proc: where processes are. One of another machine's tree is not run.
    """
    return _version(pid, proc, _SAID)


def is_apart(pid: int, proc: Path) -> bool:
    """Return whether a process is in another mount namespace: its program is not this one's to run."""
    try:
        return (proc / str(pid) / "ns/mnt").stat().st_ino not in _machines_mounts()
    except OSError:
        return False


def _machines_mounts() -> set[int]:
    """Return the mount namespaces whose programs may be run: our own, and that of the machine's first process.

    The second is the node's where we are in a container that sees the host's processes; in any other pid namespace
    number 1 is a container's.
    """
    found = {Path("/proc/self/ns/mnt").stat().st_ino}
    with contextlib.suppress(OSError):  # it takes CAP_SYS_PTRACE
        if Path("/proc/self/ns/pid").stat().st_ino == FIRST["pid"]:
            found.add(Path(f"/proc/{INIT}/ns/mnt").stat().st_ino)
    return found


def program_version(pid: int, proc: Path) -> str:
    """Return the version of another program of the node that runs (a container runtime's daemon), by the same care."""
    return _version(pid, proc, _ANY)


def _version(pid: int, proc: Path, said: re.Pattern[bytes]) -> str:
    try:
        # Another mount of it (/host/proc) has our processes, too, where it has our namespace.
        if not (proc.samefile("/proc") or (proc / "self/ns/pid").samefile("/proc/self/ns/pid")):
            return ""
        process = os.open(proc / str(pid), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return _asked(process, said)
    except (OSError, subprocess.SubprocessError):
        return ""
    finally:
        os.close(process)


def _asked(process: int, said: re.Pattern[bytes]) -> str:
    """:param process: the open directory of the process, which is no other's when it has ended."""
    program = os.open("exe", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)
    try:
        owner, file = os.fstat(process), os.fstat(program)
        ours = os.stat("ns/mnt", dir_fd=process).st_ino in _machines_mounts()
        roots = owner.st_uid == file.st_uid == 0 and not file.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not (ours and roots and stat.S_ISREG(file.st_mode)):
            return ""
        return _said(program, said, (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns))
    finally:
        os.close(program)


def _said(program: int, said: re.Pattern[bytes], identity: tuple[int, ...]) -> str:
    """Run it, once for each file that it ever is."""
    known = _KNOWN.get(identity)
    if known is None:
        done = subprocess.run(
            [f"/proc/self/fd/{program}", "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=DEADLINE_S,
            pass_fds=(program,),
            cwd="/",
            env={},
        )
        match = said.search(done.stdout[:MAX_WORDS])
        known = _KNOWN[identity] = "" if match is None else match[1].decode("ascii")
    return known


_KNOWN: dict[tuple[int, ...], str] = {}
"""By the program's file, which a running process keeps: a kubelet of another version is another file."""
_BUILD = re.compile(r'^kubernetes_build_info\{[^}\n]{0,500}?git_version="(v\d[0-9A-Za-z.+-]{0,60})"', re.MULTILINE)


def kubelet_version(metrics: str | None) -> str:
    """Return the kubelet's version; empty if the text does not say."""
    match = _BUILD.search(metrics or "")
    return match[1] if match else ""


def allocates(version: str) -> bool:
    """Whether a kubelet of this version writes what it has allocated; what is built from no release is new."""
    try:
        found = series_of(version, "kubelet_version")
    except InputError:
        return False
    return not found[0] or ALLOCATED_STATE.of(found) is True
