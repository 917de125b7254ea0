"""The sandbox as it stands on the machine: containers come, go, restart and get other limits, each for real.

:func:`toolkit.apply.sandbox.sandbox` makes one and takes it away.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.apply import cgroups, kill, runs
from toolkit.apply.launch import Started
from toolkit.apply.runs import CleanupReport
from toolkit.apply.runtime import Runtime
from toolkit.errors import ApplyError, InputError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_mounts import Hierarchy, read_control
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import (
    CgroupRequest,
    ContainerRequest,
    Sandbox,
    SandboxContainer,
    SandboxRequest,
    Workload,
)

AT_ONCE = 8
"""How many containers are started side by side."""


@dataclass(slots=True)
class _Container:
    request: ContainerRequest
    cgroup: str
    started: tuple[Started, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """When a change was made: CLOCK_MONOTONIC before the first and after the last write."""

    began_ns: int
    ended_ns: int


class LiveSandbox:
    """A sandbox that stands. Not for use by several threads at a time, its own in :meth:`start_all` apart."""

    def __init__(self, root: Path, hierarchy: Hierarchy, run_id: str, runtime: Runtime, cleaned: CleanupReport) -> None:
        self.hierarchy = hierarchy
        self.cleaned = cleaned
        """What the clean-up of dead runs, made before this one, did."""
        self.before_delete: Callable[[str], None] = lambda _claim: None
        """Called with a claim whose tasks are gone before its cgroup is: its counters can still be read."""
        self._root = root
        self._run_id = run_id
        self._runtime = runtime
        self._parents: set[str] = set()
        self._containers: dict[str, _Container] = {}

    @property
    def value(self) -> Sandbox:
        """What stands on the machine now, with the main processes of each container."""
        return Sandbox(
            run_id=self._run_id,
            root=runs.top(self._run_id),
            runtime=self._runtime.name,
            containers=tuple(
                SandboxContainer(claim=claim, cgroup=one.cgroup, pids=tuple(started.pid for started in one.started))
                for claim, one in self._containers.items()
            ),
        )

    def build(self, request: SandboxRequest) -> None:
        """Make the cgroups of a request; nothing runs in them yet."""
        cgroups.make(self.hierarchy, runs.top(self._run_id), CgroupRequest(path="", cpus=request.cpus))
        for parent in request.parents:
            self.add_parent(parent)
        for container in request.containers:
            self.prepare(container)

    def add_parent(self, parent: CgroupRequest) -> None:
        """Make the cgroup of one pod more."""
        self._check_cpus(parent)
        cgroups.make(self.hierarchy, self._place(parent), parent)
        self._parents.add(parent.path)

    def remove_parent(self, path: str) -> None:
        """Remove the cgroup of a pod whose containers are gone."""
        inside = [claim for claim, one in self._containers.items() if one.request.cgroup.path.startswith(f"{path}/")]
        if path not in self._parents or inside:
            raise InputError("sandbox", f"parent {path!r} has {', '.join(inside) or 'never been'}", "an empty one")
        self._remove_cgroup(f"{runs.top(self._run_id)}/{path}")
        self._parents.discard(path)

    def prepare(self, container: ContainerRequest) -> None:
        """Make the cgroup of one container more; nothing runs in it yet."""
        if container.claim in self._containers:
            raise InputError("sandbox", f"claim {container.claim!r} exists already", "one container for each claim")
        self._check_cpus(container.cgroup)
        cgroup = self._place(container.cgroup)
        try:
            cgroups.make(self.hierarchy, cgroup, container.cgroup)
        except ApplyError:
            self._remove_cgroup(cgroup)
            raise
        self._containers[container.claim] = _Container(container, cgroup)

    def create(self, container: ContainerRequest) -> WriteTimes:
        """Make and start one container more."""
        began = time.monotonic_ns()
        self.prepare(container)
        self.start(container.claim)
        return WriteTimes(began, time.monotonic_ns())

    def remove(self, claim: str) -> WriteTimes:
        """Stop a container and remove its cgroup."""
        began = time.monotonic_ns()
        one = self._find(claim)
        self.stop(claim)
        self.before_delete(claim)
        self._remove_cgroup(one.cgroup)
        del self._containers[claim]
        return WriteTimes(began, time.monotonic_ns())

    def start(self, claim: str) -> WriteTimes:
        """Start a container that does not run.

        :raises ApplyError: a workload cannot be started or dies at once (its last words are in the message).
        """
        began = time.monotonic_ns()
        one = self._find(claim)
        if one.started:
            raise InputError("sandbox", f"claim {claim!r} runs already")
        one.started = self._runtime.start(one.request, one.cgroup)
        return WriteTimes(began, time.monotonic_ns())

    def start_all(self, claims: Iterable[str]) -> None:
        """Start containers in this order, neighbours of the same CPU weight side by side.

        A load of weight 2 beside one of 1024 that spins gets a five-hundredth of the CPU, and starts as slowly:
        whatever makes the request puts those with little weight first.

        :raises ApplyError: as :meth:`start`, when all others of its weight have been started or given up, too.
        """
        for _, alike in itertools.groupby(claims, lambda claim: self._find(claim).request.cgroup.shares):
            self._start_alike(tuple(alike))

    def _start_alike(self, claims: tuple[str, ...]) -> None:
        pool = ThreadPoolExecutor(AT_ONCE, "start")
        ended = False
        try:
            started = [pool.submit(self.start, claim) for claim in claims]
            wait(started)
            ended = True
        finally:
            # What is interrupted goes on to the clean-up: it kills what was started, and what waits for it sees that.
            pool.shutdown(wait=ended, cancel_futures=True)
        for one in started:
            one.result()

    def stop(self, claim: str) -> WriteTimes:
        """End all tasks of a container. Its empty cgroup stays; with runc and crun it is a new one with another id."""
        began = time.monotonic_ns()
        one = self._find(claim)
        self._runtime.stop(one.request, one.cgroup, one.started, lambda: self.before_delete(claim))
        one.started = ()
        if not cgroupfs.exists(self.hierarchy, one.cgroup):
            cgroups.make(self.hierarchy, one.cgroup, one.request.cgroup)
        return WriteTimes(began, time.monotonic_ns())

    def restart(self, claim: str) -> WriteTimes:
        """Stop and start a container."""
        return WriteTimes(self.stop(claim).began_ns, self.start(claim).ended_ns)

    def spawn(self, claim: str, workload: Workload) -> int:
        """Run one workload more in a container that runs, and return its pid."""
        one = self._find(claim)
        started = self._runtime.spawn(one.request, one.cgroup, workload)
        one.started = (*one.started, started)
        return started.pid

    def set_cpus(self, claim: str, cpus: CpuSet) -> WriteTimes:
        """Give a container other CPUs; when this returns, all its tasks have been moved."""
        one = self._find(claim)
        wanted = replace(one.request.cgroup, cpus=cpus)
        self._check_cpus(wanted)
        if not cpus:
            raise InputError(f"claim {claim}", "an empty CPU set", "at least one CPU")
        began = time.monotonic_ns()
        if one.started:
            self._runtime.set_cpus(one.request, one.cgroup, cpus)
        else:
            cgroups.set_cpus(self.hierarchy, one.cgroup, cpus)
        ended = time.monotonic_ns()
        one.request = replace(one.request, cgroup=wanted)
        return WriteTimes(began, ended)

    def set_bandwidth(
        self, claim: str, quota_us: int, period_us: int = 100_000, burst_us: int | None = None
    ) -> WriteTimes:
        """Give a container another CFS bandwidth (``quota_us`` -1: none)."""
        one = self._find(claim)
        began = time.monotonic_ns()
        if one.started:
            self._runtime.set_bandwidth(one.request, one.cgroup, quota_us, period_us, burst_us)
        else:
            cgroups.set_bandwidth(self.hierarchy, one.cgroup, quota_us, period_us, burst_us)
        ended = time.monotonic_ns()
        wanted = replace(one.request.cgroup, quota_us=quota_us, period_us=period_us, burst_us=burst_us)
        one.request = replace(one.request, cgroup=wanted)
        return WriteTimes(began, ended)

    def set_parent(self, request: CgroupRequest) -> WriteTimes:
        """Write the limits of a pod's cgroup anew; ``None`` leaves a file alone."""
        if request.path not in self._parents:
            raise InputError("sandbox", f"no parent {request.path!r}", "a path of the request's parents")
        began = time.monotonic_ns()
        cgroups.set_limits(self.hierarchy, self._place(request), request)
        return WriteTimes(began, time.monotonic_ns())

    def close(self) -> None:
        """Stop all containers the way the runtime wants it; :func:`toolkit.apply.runs.end` does the rest."""
        # All at once: what dies needs CPU time, of which a container of the lowest weight gets none beside the others.
        kill.send(mount / runs.top(self._run_id)[1:] for mount in cgroups.member_mounts(self.hierarchy, memory=True))
        for one in self._containers.values():
            if one.started:
                self._runtime.stop(one.request, one.cgroup, one.started)

    def _find(self, claim: str) -> _Container:
        found = self._containers.get(claim)
        if found is None:
            raise InputError("sandbox", f"no claim {claim!r}", ", ".join(self._containers) or "a claim")
        return found

    def _place(self, request: CgroupRequest) -> str:
        cgroup = f"{runs.top(self._run_id)}/{request.path}"
        cgroupfs.relative(cgroup)
        parent = request.path.rpartition("/")[0]
        if parent and parent not in self._parents:
            raise InputError("sandbox", f"cgroup {request.path!r} has no parent", "parents first")
        return cgroup

    def _remove_cgroup(self, cgroup: str) -> None:
        names = cgroups.hierarchies(self.hierarchy, everything=True)
        mounts = (cgroups.mount_of(self.hierarchy, name) for name in names)
        kill.remove(mount / cgroupfs.relative(cgroup) for mount in mounts if mount is not None)

    def _check_cpus(self, request: CgroupRequest) -> None:
        online = CpuSet.parse(read_control(self._root / "sys/devices/system/cpu/online") or "", "online CPUs")
        if request.cpus and not request.cpus <= online:
            missing = request.cpus - online
            raise ApplyError(f"cgroup {request.path}: CPUs {missing} are not online (online: {online})")
