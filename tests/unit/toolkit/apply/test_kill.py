"""What does not die is named: pid, name, state. What could, if it had a CPU, has more time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.apply import kill
from toolkit.errors import ApplyError
from toolkit.host import procfs


@pytest.fixture
def nothing_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that SIGKILL does not end."""
    monkeypatch.setattr(kill, "_kill_once", lambda top: None)


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that sleeps."""
    with subprocess.Popen(["sleep", "600"]) as process:
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.001)
        yield process.pid
        process.kill()


@pytest.mark.usefixtures("nothing_is_killed")
def test_what_does_not_die_is_named(tmp_path: Path) -> None:
    """A cgroup that lists us, and nothing that kills: the error says which process is left, and in which state."""
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    with pytest.raises(ApplyError) as caught:
        kill.remove([tmp_path], deadline_s=0.0)
    text = f"not killed: {os.getpid()} ({procfs.comm(os.getpid())}, R (running))"
    assert str(caught.value) == f"{tmp_path}: cannot be emptied within 0 s: {text}"


@pytest.mark.usefixtures("nothing_is_killed")
def test_what_sleeps_has_the_deadline_alone(tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for something that may never come."""
    monkeypatch.setattr(kill, "STARVED", float("inf"))
    (tmp_path / "cgroup.procs").write_text(f"{sleeper}\n")
    with pytest.raises(ApplyError, match=rf"not killed: {sleeper} \(sleep, S \(sleeping\)"):
        kill.kill([tmp_path], deadline_s=0.0)


@pytest.mark.usefixtures("nothing_is_killed")
def test_what_waits_for_a_cpu_has_more_time(tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them is runnable: the deadline is over, and the wait goes on until all are gone."""
    listed = tmp_path / "cgroup.procs"
    listed.write_text(f"{sleeper}\n{os.getpid()}\n")
    looks = 0

    def look(pid: int) -> str:
        nonlocal looks
        looks += 1
        if looks == 20:
            listed.write_text("")  # they have died
        return "R (running)" if pid == os.getpid() else "S (sleeping)"

    monkeypatch.setattr(kill, "_state", look)
    monkeypatch.setattr(kill, "STARVED", float("inf"))
    kill.kill([tmp_path], deadline_s=0.0001)
    assert looks >= 20
