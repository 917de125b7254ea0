"""What a runtime must do for the sandbox; ``cgroupfs_runtime`` and ``oci_runtime`` do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from toolkit.apply.launch import Started
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import ContainerRequest, Workload


class Runtime(Protocol):
    """What differs between plain processes and OCI containers."""

    name: str

    def start(self, container: ContainerRequest, cgroup: str) -> tuple[Started, ...]:
        """Start the container in its empty cgroup."""

    def spawn(self, container: ContainerRequest, cgroup: str, workload: Workload) -> Started:
        """Run one workload more in the running container."""

    def stop(
        self,
        container: ContainerRequest,
        cgroup: str,
        started: tuple[Started, ...],
        before_delete: Callable[[], None] = lambda: None,
    ) -> None:
        """End the container's tasks. :param before_delete: called once they are gone, if the cgroup goes with them."""

    def set_cpus(self, container: ContainerRequest, cgroup: str, cpus: CpuSet) -> None:
        """Move the running container to other CPUs."""

    def set_bandwidth(
        self, container: ContainerRequest, cgroup: str, quota_us: int, period_us: int, burst_us: int | None
    ) -> None:
        """Give the running container another CFS bandwidth."""

    def reap(self) -> None:
        """Collect children of ours after everything has been killed."""
