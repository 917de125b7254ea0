"""Starting commands as members of cgroups: what needs no root of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolkit.apply import launch
from toolkit.apply.launch import Started
from toolkit.apply.workloads import SHELL, Command
from toolkit.errors import ApplyError
from toolkit.host import procfs
from toolkit.model.cpuset import CpuSet

SLEEP = launch.host_program("sleep", "coreutils")


def start(directory: Path, *argv: str, procs: tuple[Path, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a command on the CPUs that this test may use."""
    cpus = CpuSet.of(os.sched_getaffinity(0))
    return launch.spawn(argv, cpus=cpus, procs=procs, stderr=directory / "stderr", what="here", directory=directory)


def await_ready(
    process: subprocess.Popen[bytes],
    directory: Path,
    comm: str,
    *,
    workers: int = 0,
    deadline_s: float = launch.READY_S,
) -> None:
    """Wait for what :func:`start` started."""
    started = Started(process.pid, process)
    command = Command(argv=(), comm=comm, workers=workers)
    stderr = directory / "stderr"
    launch.await_ready(started, command, what="here", stderr=stderr, deadline_s=deadline_s)


@contextmanager
def running(directory: Path, *argv: str, procs: tuple[Path, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, and end it with its children."""
    process = start(directory, *argv, procs=procs)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_command_replaces_the_shell_that_waited(tmp_path: Path) -> None:
    """The pid that was put into the cgroups is the command's, and each file in the order of joining got it."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("")
    second.write_text("")
    with running(tmp_path, SLEEP, "1000", procs=(first, second)) as process:
        await_ready(process, tmp_path, "sleep")
        assert first.read_text() == second.read_text() == str(process.pid)


def test_a_cgroup_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    """One line names the step, the command never runs, and no process is left."""
    ran = tmp_path / "ran"
    with pytest.raises(ApplyError, match=r"here: join .*/gone/cgroup\.procs: No such file or directory"):
        start(tmp_path, SHELL, "-c", f"echo >{ran}", procs=(tmp_path / "gone/cgroup.procs",))
    assert not ran.exists()
    assert procfs.children(os.getpid()) == []


def test_what_waits_for_a_toolkit_that_died_ends(tmp_path: Path) -> None:
    """The end of the pipe is not the word to go on."""
    ran = tmp_path / "ran"
    done = subprocess.run([SHELL, "-c", launch._GATE, "sh", "touch", ran], stdin=subprocess.DEVNULL, check=False)
    assert done.returncode != 0
    assert not ran.exists()


def test_a_command_that_does_not_exist_is_told_with_its_last_words(tmp_path: Path) -> None:
    """It dies at once, and what the shell said of it is in the error."""
    process = start(tmp_path, str(tmp_path / "nothing"))
    with pytest.raises(ApplyError, match=r"here: the workload died at once with exit code 127: .*nothing.*not found"):
        await_ready(process, tmp_path, "nothing")


def test_workers_are_counted_by_name(tmp_path: Path) -> None:
    """A start is complete when as many children as asked for carry the name, whatever tells of them."""
    with running(tmp_path, SHELL, "-c", "sleep 1000 & sleep 1000 & wait") as process:
        await_ready(process, tmp_path, "sleep", workers=2)
        with pytest.raises(ApplyError, match="2 of 3 tasks named 'sleep'"):
            await_ready(process, tmp_path, "sleep", workers=3, deadline_s=0.01)


def test_kernels_that_do_not_tell_of_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CONFIG_PROC_CHILDREN all processes are asked for their parent; strangers of that name do not count."""
    monkeypatch.setattr(procfs, "children", lambda _pid: None)
    with running(tmp_path, SHELL, "-c", "sleep 1000 & wait") as process:
        await_ready(process, tmp_path, "sleep", workers=1)
        with pytest.raises(ApplyError, match="1 of 2 tasks named 'sleep'"):
            await_ready(process, tmp_path, "sleep", workers=2, deadline_s=0.01)


def test_the_process_of_a_runtime_is_alive_until_it_ends(tmp_path: Path) -> None:
    """It lives until it ends; a number without a process is told as a workload that died at once."""
    with subprocess.Popen([SLEEP, "1000"]) as process:
        started = Started.by_a_runtime(process.pid)
        assert launch.alive(started)
        process.kill()
        process.wait()
        assert not launch.alive(started)
    gone = Started.by_a_runtime(process.pid)
    assert not launch.alive(gone)
    with pytest.raises(ApplyError, match="here: the workload died at once: no message"):
        launch.await_ready(gone, Command(argv=(), comm="x", workers=0), what="here", stderr=tmp_path / "stderr")
