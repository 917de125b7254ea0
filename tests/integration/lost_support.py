"""Watches and runs whose disk, terminal or time is taken away: started here, judged by the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.integration.probe_lab import wait_for

PINPROOF = (sys.executable, "-m", "toolkit")
CLAIMS = """apiVersion: pinproof/v1
kind: Claims
claims:
- {name: all, cgroup: PLACE, cpus: "0"}
"""
SCENARIO = """apiVersion: pinproof/v1
kind: Scenario
name: NAME
title: a small load
shows: nothing new
requires: {cpus: 1}
kubelet: {cpuManagerPolicy: none}
pods:
  - apiVersion: v1
    kind: Pod
    metadata: {name: load}
    spec:
      containers:
        - name: main
          resources: {requests: {cpu: "100m", memory: 16Mi}}
workloads:
  load/main: [{kind: KIND}]
durationSeconds: SECONDS
"""


@dataclass(frozen=True)
class Begun:
    """A verb that was begun, with a directory of its own."""

    process: subprocess.Popen[str]
    folder: Path

    @property
    def runs(self) -> list[Path]:
        """What it has saved."""
        return list((self.folder / "runs").iterdir())

    def ended(self) -> tuple[int, str, str]:
        """Wait for its end; return the exit code and what it said."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


def begin(folder: Path, *arguments: object, env: Mapping[str, str] | None = None) -> Begun:
    """Begin a verb in this directory, which is also where it saves unless told otherwise."""
    env = {**(os.environ if env is None else env), "PINPROOF_RUNS": str(folder / "runs")}
    pipe, command = subprocess.PIPE, [*PINPROOF, *map(str, arguments)]
    return Begun(subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True), folder)


@contextlib.contextmanager
def ending(
    processes: Collection[Begun], how: Callable[[subprocess.Popen[str]], None] = subprocess.Popen.terminate
) -> Iterator[None]:
    """End those that still run when the block is left. :param how: what is done to each process."""
    try:
        yield
    finally:
        for one in processes:
            how(one.process)
            one.process.communicate()


def watch(claims: Path, output: Path, *, seconds: float = 0.3, host: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start ``watch``; it prints JSON."""
    return subprocess.Popen(
        [*host, *PINPROOF, "watch", "--claims", claims, "--duration", str(seconds), "--output", output, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def watching(done: subprocess.Popen[str]) -> None:
    """Wait until it observes: signals are noted, its sampler runs, and the window opens next.

    A perf event alone says nothing: whether this host allows one is tried out before signals are noted.
    """
    process = Path(f"/proc/{done.pid}")

    def sampled() -> bool:
        assert done.poll() is None, done.communicate()
        with contextlib.suppress(OSError):
            lines = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
            caught = int(lines["SigCgt"], 16) >> signal.SIGTERM - 1 & 1
            return bool(caught) and any("perf_event" in str(link.readlink()) for link in (process / "fd").iterdir())
        return False

    wait_for(sampled, "the window", 60)


def scenario(tmp_path: Path, name: str, kind: str, seconds: float = 0.3) -> Path:
    """Write a scenario: ``spin`` can be run everywhere, ``switch`` needs stress-ng."""
    path = tmp_path / f"{name}.yaml"
    path.write_text(SCENARIO.replace("NAME", name).replace("KIND", kind).replace("SECONDS", str(seconds)))
    return path
