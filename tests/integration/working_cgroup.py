"""A cgroup that pinproof did not make, with work in it, for Ansible tests with real jobs; and a claim about it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from toolkit.host import cgroupfs

BURSTS = """
import sys, time
sys.stdin.read()
while True:
    until = time.perf_counter() + 0.002
    while time.perf_counter() < until:
        pass
    time.sleep(0.008)
"""


def wait_until(condition: object, what: str) -> None:
    """Wait for a condition with a deadline."""
    assert callable(condition)
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        time.sleep(0.02)  # between two looks at a condition


@contextmanager
def directory(path: Path) -> Iterator[Path]:
    """A cgroup directory that is gone afterwards."""
    path.mkdir()
    try:
        yield path
    finally:
        wait_until(lambda: not (path / "cgroup.procs").read_text().strip(), f"{path} is empty")
        path.rmdir()


@contextmanager
def cpuset_controller(root: Path) -> Iterator[None]:
    """The cpuset controller below a v2 root, as it was before afterwards."""
    control = root / "cgroup.subtree_control"
    had = "cpuset" in control.read_text().split()
    if not had:
        control.write_text("+cpuset")
    try:
        yield
    finally:
        if not had:
            control.write_text("-cpuset")


@contextmanager
def spinner(name: str = f"pinproof-ansible-{os.getpid()}") -> Iterator[str]:
    """A cgroup that pinproof did not make with one task on the first allowed CPU, which works now and then; its path.

    A hundred bursts a second are as much of a life as one that never ends, and leave the CPU to the play and its jobs.
    """
    hierarchy = cgroupfs.detect()
    cpu = min(os.sched_getaffinity(0))
    with ExitStack() as stack:
        identity = cgroupfs.identity_dir(hierarchy, f"/{name}")
        legacy = dict(hierarchy.legacy).get("cpuset")
        if legacy is None:
            stack.enter_context(cpuset_controller(hierarchy.unified or Path("/sys/fs/cgroup")))
        places = [stack.enter_context(directory(identity))]
        if legacy is not None:
            places.append(stack.enter_context(directory(legacy / name)))
        (places[-1] / "cpuset.cpus").write_text(str(cpu))
        (places[-1] / "cpuset.mems").write_text("0")
        # It spins only once it stands where the claim says.
        task = subprocess.Popen([sys.executable, "-ISc", BURSTS], stdin=subprocess.PIPE)
        stack.callback(task.wait)
        stack.callback(task.kill)
        for place in reversed(places):
            (place / "cgroup.procs").write_text(str(task.pid))
        assert task.stdin is not None
        task.stdin.write(b"\n")
        task.stdin.close()
        yield f"/{name}"


def write_claim(place: Path, name: str, cgroup: str, cpu: int) -> Path:
    """A claims file with one claim about one CPU."""
    path = place / f"{name}.yaml"
    path.write_text(
        "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
        f'  - {{name: db, cgroup: {cgroup}, cpus: "{cpu}", isolation: host}}\n'
    )
    return path
