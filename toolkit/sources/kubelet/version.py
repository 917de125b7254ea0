"""The version of the kubelet that runs, by its own program: ``kubelet --version``.

A kubelet writes its version into no file, and its metrics need credentials; but which feature gates are on by default
depends on it. The program is run as root, so it must be root's already: a process of root in our own mount namespace,
whose file only root may write. A container's root, or anything that calls a process ``kubelet``, is not asked.

Source: proc(5) (``/proc/pid/exe``, ``/proc/pid/ns``); Kubernetes documentation, kubelet ``--version``.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

DEADLINE_S = 30.0
"""A kubelet that is asked for its version on an emulated machine at work took more than 10 s."""
MAX_BYTES = 4096
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
        return (proc / str(pid) / "ns/mnt").stat().st_ino != Path("/proc/self/ns/mnt").stat().st_ino
    except OSError:
        return False


def program_version(pid: int, proc: Path) -> str:
    """Return the version of another program of the node that runs (a container runtime's daemon), by the same care."""
    return _version(pid, proc, _ANY)


def _version(pid: int, proc: Path, said: re.Pattern[bytes]) -> str:
    try:
        if not proc.samefile("/proc"):
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
        ours = os.stat("ns/mnt", dir_fd=process).st_ino == Path("/proc/self/ns/mnt").stat().st_ino
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
        match = said.search(done.stdout[:MAX_BYTES])
        known = _KNOWN[identity] = "" if match is None else match[1].decode("ascii")
    return known


_KNOWN: dict[tuple[int, ...], str] = {}
"""By the program's file, which a running process keeps: a kubelet of another version is another file."""
