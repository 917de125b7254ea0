"""Runtimes with a program (``runc``, ``crun``): real OCI containers from bundles in the run's directory.

The container's cgroup is made beforehand with its cpuset, so that its first task is never without one; the runtime then
sets everything again, as it does for the kubelet. The runtime's own processes run in the run's manager cgroup: they die
with the run and are never counted as a pod's.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolkit.apply import cgroups, kill, launch, oci, workloads
from toolkit.apply.launch import Started
from toolkit.apply.oci import LOAD_MOUNT, Bind
from toolkit.apply.run_files import making
from toolkit.apply.workloads import LOAD_DIRECTORY, Command
from toolkit.errors import ApplyError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.cpuset import CpuSet
from toolkit.model.runtimes import RUNTIMES
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, Workload, WorkloadKind

_HOST_DIRECTORIES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr")


@dataclass(slots=True)
class OciRuntime:
    """Runs containers by a runtime's command line.

    :param directory: the run's own directory: bundles, the runtime's state, error files.
    :param name: a name of :data:`toolkit.model.runtimes.RUNTIMES`.
    """

    hierarchy: Hierarchy
    directory: Path
    run_id: str
    name: str
    binary: str = ""
    ids: dict[str, str] = field(default_factory=dict)
    """Claim and id of the container that runs."""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.binary = launch.host_program(RUNTIMES[self.name].program, RUNTIMES[self.name].program)

    def start(self, container: ContainerRequest, cgroup: str) -> tuple[Started, ...]:
        """Run the first workload as the container's init, the others beside it."""
        first, *others = container.workloads or (Workload(kind=WorkloadKind.QUIET),)
        identifier = f"pinproof-{self.run_id}-{next(self.numbers)}"
        bundle = self.directory / "bundles" / identifier
        with making(bundle):
            binds = self._rootfs(bundle / "rootfs")
        command = self._command(first)
        config = oci.config(
            argv=command.argv,
            cgroups_path=cgroup,
            resources=container.cgroup,
            binds=binds,
            hostname="pinproof",
        )
        with making(bundle / "config.json"):
            (bundle / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        pid_file = bundle / "pid"
        self.ids[container.claim] = identifier
        stderr = bundle / "stderr"
        options = ("run", "--detach", "--bundle", str(bundle), "--pid-file", str(pid_file), identifier)
        self._call(options, container, stderr)
        started = [self._ready(container, cgroup, first, command, pid_file, stderr)]
        started += [self.spawn(container, cgroup, workload) for workload in others]
        if container.cgroup.burst_us is not None and container.cgroup.quota_us is not None:
            # Runtimes before runc 1.2 do not know burst: what they wrote is completed here.
            request = container.cgroup
            cgroups.set_bandwidth(
                self.hierarchy, cgroup, container.cgroup.quota_us, request.period_us, request.burst_us
            )
        self._verify(cgroup, container.cgroup)
        return tuple(started)

    def spawn(self, container: ContainerRequest, cgroup: str, workload: Workload) -> Started:
        """Run one workload more inside the container (``exec``)."""
        identifier = self.ids[container.claim]
        command = self._command(workload)
        number = next(self.numbers)
        bundle = self.directory / "bundles" / identifier
        pid_file, stderr = bundle / f"{number}.pid", bundle / f"{number}.stderr"
        options = ("exec", "--detach", "--pid-file", str(pid_file), identifier, *command.argv)
        self._call(options, container, stderr)
        return self._ready(container, cgroup, workload, command, pid_file, stderr)

    def stop(
        self,
        container: ContainerRequest,
        cgroup: str,
        started: tuple[Started, ...],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """Delete the container; its cgroups go with it."""
        identifier = self.ids.pop(container.claim, None)
        names = cgroups.hierarchies(self.hierarchy, everything=True)
        mounts = [cgroups.mount_of(self.hierarchy, name) for name in names]
        tops = [mount / cgroupfs.relative(cgroup) for mount in mounts if mount is not None]
        if identifier is not None:
            # Killed first, because the runtime waits for the end of a storm longer than it takes to end it.
            kill.kill(tops)
            before_delete()
            self._call(("delete", "--force", identifier), container, self.directory / f"{identifier}.stderr")
        kill.remove(tops)

    def set_cpus(self, container: ContainerRequest, cgroup: str, cpus: CpuSet) -> None:
        """Move the running container to other CPUs (``update``)."""
        request = replace(CgroupRequest(path=container.cgroup.path), cpus=cpus)
        self._update(container, cgroup, request)

    def set_bandwidth(
        self, container: ContainerRequest, cgroup: str, quota_us: int, period_us: int, burst_us: int | None
    ) -> None:
        """Give the running container another CFS bandwidth (``update``)."""
        request = CgroupRequest(path=container.cgroup.path, quota_us=quota_us, period_us=period_us)
        self._update(container, cgroup, request)
        if burst_us is not None:
            cgroups.set_bandwidth(self.hierarchy, cgroup, quota_us, period_us, burst_us)

    def reap(self) -> None:
        """Nothing to collect: containers are not children of ours."""

    def _update(self, container: ContainerRequest, cgroup: str, request: CgroupRequest) -> None:
        identifier = self.ids[container.claim]
        stderr = self.directory / "bundles" / identifier / "update.stderr"
        self._call(("update", *oci.update_options(request), identifier), container, stderr)
        self._verify(cgroup, request)

    def _verify(self, cgroup: str, request: CgroupRequest) -> None:
        """Compare the kernel's values with what was asked: runtimes have been known to say yes and do nothing."""
        found = cgroupfs.read_files(self.hierarchy, cgroup, 0)
        wanted: list[tuple[str, object, object]] = []
        if request.cpus:
            wanted.append(("cpuset.cpus", request.cpus, found.cpus))
        if request.mems:
            wanted.append(("cpuset.mems", request.mems, found.mems))
        if request.quota_us is not None:
            wanted.append(("CFS quota", request.quota_us, found.quota_us))
            wanted.append(("CFS period", request.period_us, found.period_us))
        for what, asked, got in wanted:
            if asked != got:
                raise ApplyError(f"{cgroup}: {self.name} was given {what} {asked}, but the kernel reports {got}")

    def _call(self, options: tuple[str, ...], container: ContainerRequest, stderr: Path) -> None:
        state = self.directory / self.name
        with making(state):
            state.mkdir(mode=0o700, exist_ok=True)
        what = f"claim {container.claim}, {self.name} {options[0]}"
        process = launch.spawn(
            (self.binary, "--root", str(state), *options),
            cpus=None,
            procs=(self._manager() / "cgroup.procs",),
            stderr=stderr,
            what=what,
            directory=self.directory,
        )
        if process.wait() != 0:
            raise ApplyError(f"{what} failed with exit code {process.returncode}: {launch.last_words(stderr)}")

    def _manager(self) -> Path:
        assert self.hierarchy.unified is not None
        directory = self.hierarchy.unified / f"pinproof-{self.run_id}-runtime"
        with making(directory):
            directory.mkdir(mode=0o755, exist_ok=True)
        return directory

    def _ready(
        self,
        container: ContainerRequest,
        cgroup: str,
        workload: Workload,
        command: Command,
        pid_file: Path,
        stderr: Path,
    ) -> Started:
        what = f"claim {container.claim}, workload {workload.kind}"
        try:
            pid = int(pid_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            raise ApplyError(f"{what}: {self.name} left no pid: {launch.last_words(stderr)}") from None
        started = Started.by_a_runtime(pid)
        launch.await_ready(started, command, what=what, stderr=stderr)
        return started

    def _command(self, workload: Workload) -> Command:
        python = str(Path(sys.executable).resolve())
        scratch = "/tmp"  # noqa: S108 - a tmpfs of the container's own
        programs = launch.programs(workload, python=python, load=LOAD_MOUNT, scratch=scratch)
        return workloads.command(workload, programs)

    def _rootfs(self, rootfs: Path) -> tuple[Bind, ...]:
        """Make an empty root directory and say what of the host is to be seen in it."""
        rootfs.mkdir(parents=True, mode=0o755)
        binds = [Bind(source=str(LOAD_DIRECTORY), target=LOAD_MOUNT)]
        for name in _HOST_DIRECTORIES:
            path = Path("/") / name
            if path.is_symlink():
                (rootfs / name).symlink_to(path.readlink())
            elif path.is_dir():
                binds.append(Bind(source=str(path), target=str(path)))
        prefix = str(Path(sys.base_prefix).resolve())
        if not prefix.startswith("/usr"):
            binds.append(Bind(source=prefix, target=prefix))
        if Path("/etc/ld.so.cache").is_file():
            binds.append(Bind(source="/etc/ld.so.cache", target="/etc/ld.so.cache"))
        return tuple(binds)
