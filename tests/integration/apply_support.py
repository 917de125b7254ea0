"""What the apply tests share: requests, and a search for everything that a run could have left behind."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from toolkit.apply import journal
from toolkit.errors import PinproofError
from toolkit.host import cgroupfs, procfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.runtimes import CGROUPFS
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind

LOADS = tuple(kind for kind in WorkloadKind if kind is not WorkloadKind.HUGE_PAGES)
"""Those that take nothing of which the machine has a number; the others are in ``test_apply_hugepages.py``."""


def online() -> CpuSet:
    """The CPUs that can be used."""
    return CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())


def container(claim: str, *kinds: WorkloadKind, threads: int = 1, **limits: object) -> ContainerRequest:
    """A container below the pod ``pod`` that runs the given loads."""
    return ContainerRequest(
        claim=claim,
        cgroup=CgroupRequest(path=f"pod/{claim}", **limits),  # type: ignore[arg-type]
        workloads=tuple(Workload(kind=kind, threads=threads) for kind in kinds),
    )


def request(*containers: ContainerRequest) -> SandboxRequest:
    """A pod with containers."""
    return SandboxRequest(parents=(CgroupRequest(path="pod", quota_us=-1, shares=1024),), containers=containers)


def processes(run_id: str) -> list[str]:
    """Living processes that are in a cgroup of the run, or whose command line names it."""
    found = []
    for pid in procfs.pids():
        if pid == os.getpid():
            continue
        try:
            # A test beside this one may have made cgroups and tasks with names of any bytes.
            groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            zombie = ") Z " in Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            continue
        # A dead process waits for its parent; orphans wait for init, which is not ours to hurry.
        if not zombie and (f"pinproof-{run_id}" in groups or f"pinproof-{run_id}" in command):
            found.append(f"{pid}: {command}")
    return found


THIS_CENTURY = "20"
"""What the ids of runs begin with, and names of cgroups that a test beside this one makes do not."""


def sandboxes(run_id: str = "") -> set[Path]:
    """Top cgroups of sandboxes on this machine, in every hierarchy. :param run_id: what their run ids begin with."""
    hierarchy = cgroupfs.detect()
    mounts = {path for _, path in hierarchy.legacy} | ({hierarchy.unified} if hierarchy.unified else set())
    return {path for mount in mounts for path in mount.glob(f"pinproof-{run_id}*")}


def of_living_runs() -> set[Path]:
    """Top cgroups of the runs whose process lives, by their journals, in every hierarchy."""
    found: set[Path] = set()
    for folder in journal.runs_directory(Path("/")).glob("*"):
        with suppress(OSError, PinproofError):  # It has just ended.
            run = journal.read(folder)
            if run is not None and run.alive(Path("/")):
                found |= sandboxes(run.run_id)
    return found


def traces(run_id: str) -> list[str]:
    """Everything of a run that can still be found on this machine."""
    found = [str(path) for path in sandboxes(run_id)]
    found += [str(path) for path in Path("/run/pinproof").glob(f"{run_id}*")]
    found += [point for point in procfs.mount_points() if run_id in point]
    return found + processes(run_id)


def wait_until(condition: Callable[[], bool], deadline_s: float = 10.0) -> bool:
    """Wait for a condition; say whether it came true."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def masks(pids: tuple[int, ...]) -> set[CpuSet]:
    """The distinct affinities of all threads of processes."""
    found = set()
    for pid in pids:
        for tid in procfs.tids(pid):
            try:
                found.add(CpuSet.of(os.sched_getaffinity(tid)))
            except OSError:
                continue
    return found


@contextmanager
def pool(page: int, pages: int) -> Iterator[None]:
    """Have so many huge pages more than there are; the pool is put back, and what cannot be had is skipped.

    The pool is the machine's, and a kubelet's state file describes the rest of its memory: not for tests beside others.
    """
    file = Path(f"/sys/kernel/mm/hugepages/hugepages-{page // 1024}kB/nr_hugepages")
    if not file.exists():
        pytest.skip(f"this kernel has no pages of {page} bytes")
    before = int(file.read_text())
    try:
        file.write_text(str(before + pages))
        if int(file.read_text()) < before + pages:
            pytest.skip(f"no memory for {pages} pages of {page} bytes in one piece")
        yield
    finally:
        file.write_text(str(before))
    assert int(file.read_text()) == before


def need_runtime(name: str) -> None:
    """Skip where an OCI runtime does not work on this host; the embedded one does everywhere."""
    if name != CGROUPFS and shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    if name == "crun" and cgroupfs.detect().mode is not cgroupfs.Mode.V2:
        pytest.skip("crun needs a cgroup v2 host")
