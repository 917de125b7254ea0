"""Runtime ``cgroupfs``: containers are plain processes of the host in cgroups of their own. Needs no daemon."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from toolkit.apply import cgroups, kill, launch, workloads
from toolkit.apply.launch import Started
from toolkit.apply.run_files import making
from toolkit.apply.workloads import LOAD_DIRECTORY, Command
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.cpuset import CpuSet
from toolkit.model.runtimes import CGROUPFS
from toolkit.model.sandbox import ContainerRequest, Workload, WorkloadKind


class _Begun(NamedTuple):
    """A workload that has been released to run, and may not work yet."""

    started: Started
    command: Command
    what: str
    stderr: Path

    def await_ready(self) -> Started:
        """:raises ApplyError: it died, or takes too long."""
        launch.await_ready(self.started, self.command, what=self.what, stderr=self.stderr)
        return self.started


@dataclass(slots=True)
class CgroupfsRuntime:
    """Starts and stops the processes of containers.

    :param directory: the run's own directory.
    """

    hierarchy: Hierarchy
    directory: Path
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    name: str = CGROUPFS
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Main processes that have not been collected yet."""

    def start(self, container: ContainerRequest, cgroup: str) -> tuple[Started, ...]:
        """Run the container's workloads in its cgroup; a container without any sleeps.

        :raises ApplyError: one cannot be started; those before it run.
        """
        wanted = container.workloads or (Workload(kind=WorkloadKind.QUIET),)
        return tuple(self.spawn(container, cgroup, workload) for workload in wanted)

    def spawn(self, container: ContainerRequest, cgroup: str, workload: Workload) -> Started:
        """Run one workload more.

        :raises ApplyError: it cannot be started, or dies at once.
        """
        path = cgroupfs.relative(cgroup)
        mounts = cgroups.member_mounts(self.hierarchy, memory=container.cgroup.memory_max_bytes is not None)
        procs = tuple(mount / path / "cgroup.procs" for mount in mounts)
        cpus = cgroupfs.read_effective_cpus(self.hierarchy, cgroup)
        return self._begin(container.claim, workload, cpus, procs, pin=False).await_ready()

    def spawn_pinned(self, places: Mapping[str, tuple[Path, ...]], workload: Workload, cpus: CpuSet) -> None:
        """Run a workload once for each claim, side by side; its own affinity holds it, in cgroups without a cpuset.

        :param places: claim -> ``cgroup.procs`` files. The last is its own.
        :raises ApplyError: one cannot be started, or dies at once; others may run.
        """
        for begun in [self._begin(claim, workload, cpus, procs, pin=True) for claim, procs in places.items()]:
            begun.await_ready()

    def _begin(
        self, claim: str, workload: Workload, cpus: CpuSet | None, procs: tuple[Path, ...], *, pin: bool
    ) -> _Begun:
        scratch = self.directory / "scratch"
        with making(scratch):
            scratch.mkdir(mode=0o700, exist_ok=True)
        stderr = self.directory / f"{next(self.numbers)}.stderr"
        programs = launch.programs(workload, python=sys.executable, load=str(LOAD_DIRECTORY), scratch=str(scratch))
        command = workloads.command(workload, programs)
        what = f"claim {claim}, workload {workload.kind}"
        process = launch.spawn(
            command.argv, cpus=cpus, procs=procs, stderr=stderr, what=what, directory=scratch, pin=pin
        )
        self.processes.append(process)
        return _Begun(Started(process.pid, process), command, what, stderr)

    def stop(
        self,
        container: ContainerRequest,
        cgroup: str,
        started: tuple[Started, ...],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """End every task of the container; the empty cgroup stays."""
        path = cgroupfs.relative(cgroup)
        kill.kill(mount / path for mount in cgroups.member_mounts(self.hierarchy, memory=True))
        for one in started:
            if isinstance(one.process, subprocess.Popen):
                one.process.wait()
        self.processes = [process for process in self.processes if process.returncode is None]

    def set_cpus(self, container: ContainerRequest, cgroup: str, cpus: CpuSet) -> None:
        """Move the running container to other CPUs."""
        cgroups.set_cpus(self.hierarchy, cgroup, cpus)

    def set_bandwidth(
        self, container: ContainerRequest, cgroup: str, quota_us: int, period_us: int, burst_us: int | None
    ) -> None:
        """Give the running container another CFS bandwidth."""
        cgroups.set_bandwidth(self.hierarchy, cgroup, quota_us, period_us, burst_us)

    def reap(self) -> None:
        """Collect the main processes after all have been killed, so that no zombie stays."""
        for process in self.processes:
            process.wait()
        self.processes.clear()
