"""The container runtime's socket (CRI, RuntimeService of runtime.v1): which containers there are, and what the kubelet
asked for last.

Only reads. Answers are dicts as ``crictl ... -o json`` prints them, but only of the fields below: images and mounts are
never decoded, of a sandbox's annotations those of :mod:`toolkit.sources.crio` are kept, and of the verbose status pid,
cgroup and resources (no arguments; of the environment the variables of the DRA CPU driver alone).

Source: https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto (messages and numbers);
https://github.com/containerd/containerd/blob/main/internal/cri/server/container_status.go and
https://github.com/cri-o/cri-o/blob/main/server/container_status.go for ``info``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import Any

from toolkit.errors import InputError
from toolkit.sources.dra_cpu import variables
from toolkit.sources.grpc_socket import Connection, NotFoundError, UnimplementedError, as_json
from toolkit.sources.json_parts import load, mapping, text
from toolkit.sources.messages import Enums, Table, build

ENDPOINTS = (
    *("/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock"),
    "/run/k3s/containerd/containerd.sock",
)
"""Where the runtimes listen unless they are configured otherwise (the kubelet's own list of defaults), and that of k3s,
whose kubelet is no process of its own and names none."""
SERVICE, BEFORE = "runtime.v1.RuntimeService", "runtime.v1alpha2.RuntimeService"
"""containerd up to 1.5 has the older one alone. The fields below have the same numbers and types in it."""

TABLE: Table = {
    "VersionRequest": {"version": (1, "string")},
    "VersionResponse": {
        "version": (1, "string"),
        "runtime_name": (2, "string"),
        "runtime_version": (3, "string"),
        "runtime_api_version": (4, "string"),
    },
    "ContainerMetadata": {"name": (1, "string"), "attempt": (2, "uint32")},
    "Container": {
        "id": (1, "string"),
        "pod_sandbox_id": (2, "string"),
        "metadata": (3, "ContainerMetadata"),
        "state": (6, "ContainerState"),
        "created_at": (7, "int64"),
        "labels": (8, "map"),
    },
    "ListContainersRequest": {},
    "ListContainersResponse": {"containers": (1, "Container[]")},
    "PodSandboxMetadata": {
        "name": (1, "string"),
        "uid": (2, "string"),
        "namespace": (3, "string"),
        "attempt": (4, "uint32"),
    },
    "PodSandbox": {
        "id": (1, "string"),
        "metadata": (2, "PodSandboxMetadata"),
        "state": (3, "PodSandboxState"),
        "created_at": (4, "int64"),
        "labels": (5, "map"),
        "annotations": (6, "map"),
        "runtime_handler": (7, "string"),
    },
    "ListPodSandboxRequest": {},
    "ListPodSandboxResponse": {"items": (1, "PodSandbox[]")},
    "LinuxContainerResources": {
        "cpu_period": (1, "int64"),
        "cpu_quota": (2, "int64"),
        "cpu_shares": (3, "int64"),
        "memory_limit_in_bytes": (4, "int64"),
        "oom_score_adj": (5, "int64"),
        "cpuset_cpus": (6, "string"),
        "cpuset_mems": (7, "string"),
    },
    "ContainerResources": {"linux": (1, "LinuxContainerResources")},
    "ContainerStatus": {
        "id": (1, "string"),
        "metadata": (2, "ContainerMetadata"),
        "state": (3, "ContainerState"),
        "created_at": (4, "int64"),
        "started_at": (5, "int64"),
        "finished_at": (6, "int64"),
        "exit_code": (7, "int32"),
        "log_path": (15, "string"),
        "resources": (16, "ContainerResources"),
    },
    "ContainerStatusRequest": {"container_id": (1, "string"), "verbose": (2, "bool")},
    "ContainerStatusResponse": {"status": (1, "ContainerStatus"), "info": (2, "map")},
    "LinuxRuntimeConfiguration": {"cgroup_driver": (1, "CgroupDriver")},
    "RuntimeConfigRequest": {},
    "RuntimeConfigResponse": {"linux": (1, "LinuxRuntimeConfiguration")},
}
ENUMS: Enums = {
    "ContainerState": {
        "CONTAINER_CREATED": 0,
        "CONTAINER_RUNNING": 1,
        "CONTAINER_EXITED": 2,
        "CONTAINER_UNKNOWN": 3,
    },
    "PodSandboxState": {"SANDBOX_READY": 0, "SANDBOX_NOTREADY": 1},
    "CgroupDriver": {"SYSTEMD": 0, "CGROUPFS": 1},
}
Answer = dict[str, Any]
"""An answer as protobuf's JSON has it; see :meth:`toolkit.sources.grpc_socket.Connection.call`."""


@cache
def _classes() -> dict[str, Any]:
    return build("runtime.v1", TABLE, ENUMS)


class Cri:
    """A runtime's socket; a context manager. Every method is one call with a deadline.

    :raises InputError: in every method: one line with the socket, the call and what went wrong.
    :raises HostUnsupportedError: grpcio or protobuf is not installed.
    """

    def __init__(self, endpoint: str, deadline_s: float | None = None) -> None:
        """Connect. :param endpoint: ``unix:///run/containerd/containerd.sock``, or the path alone."""
        self._connection = Connection(endpoint, SERVICE, _classes(), deadline_s)

    def __enter__(self) -> Cri:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.__exit__(kind, error, trace)

    def version(self) -> Answer:
        """Ask which runtime this is. One that does not know the service is asked by its older name from then on."""
        words = "Version", "VersionRequest", "VersionResponse"
        try:
            return self._connection.call(*words, version="v1")
        except UnimplementedError:
            self._connection.ask_for(BEFORE)
            return self._connection.call(*words, version="v1alpha2")

    def config(self) -> Answer | None:
        """Ask for the cgroup driver; ``None``: the runtime is too old to know the call (containerd before 2.0).

        The default of the field, ``SYSTEMD``, is spelt out.
        """
        try:
            answer = self._connection.call("RuntimeConfig", "RuntimeConfigRequest", "RuntimeConfigResponse")
        except UnimplementedError:
            return None
        return {"linux": {"cgroupDriver": "SYSTEMD", **mapping(answer.get("linux"))}}

    def containers(self) -> Answer:
        """List the containers, those that ended too, without sandboxes; entries as :func:`container_entry`."""
        listed = [container_entry(message) for message in self.container_messages()]
        return {"containers": listed} if listed else {}

    def sandboxes(self) -> Answer:
        """List the pods' sandboxes."""
        listed = [as_json(message) for message in self.sandbox_messages()]
        return {"items": listed} if listed else {}

    def status(self, container: str) -> Answer | None:
        """Ask for one container; ``None``: it is gone meanwhile. As :func:`status_answer`."""
        message = self.status_message(container)
        return None if message is None else status_answer(message)

    def container_messages(self) -> Sequence[Any]:
        """List the containers as messages."""
        words = "ListContainers", "ListContainersRequest", "ListContainersResponse"
        found: Sequence[Any] = self._connection.message(*words).containers
        return found

    def sandbox_messages(self) -> Sequence[Any]:
        """List the sandboxes as messages."""
        words = "ListPodSandbox", "ListPodSandboxRequest", "ListPodSandboxResponse"
        found: Sequence[Any] = self._connection.message(*words).items
        return found

    def status_message(self, container: str) -> Any:
        """Ask for one container, as a message; ``None``: it is gone meanwhile."""
        words = "ContainerStatus", "ContainerStatusRequest", "ContainerStatusResponse"
        try:
            return self._connection.message(*words, container_id=container, verbose=True)
        except NotFoundError:
            return None


def container_entry(message: Any) -> Answer:
    """Return an entry of ListContainers.

    The default of the state, ``CONTAINER_CREATED``, is spelt out: protobuf's JSON leaves it out.
    """
    return {"state": "CONTAINER_CREATED", **as_json(message)}


def status_answer(message: Any) -> Answer:
    """Return ``status``, and of ``info``: ``pid``, ``cgroupsPath``, ``resources`` of the runtime's specification, and
    ``draCpus``, which is all that is looked at in its environment.
    """
    answer = as_json(message)
    return {"status": answer.get("status", {}), **_info(mapping(answer.get("info")))}


def _info(info: Mapping[str, Any]) -> Answer:
    """Take pid, cgroup path and resources from what a runtime says about itself; its shape is no contract."""
    try:
        said = mapping(load(text(info.get("info")).encode(), "info"))
    except InputError:
        return {}
    whole = mapping(said.get("runtimeSpec"))
    linux, given = mapping(whole.get("linux")), variables(mapping(whole.get("process")).get("env"))
    resources = mapping(linux.get("resources"))
    found = {
        "pid": said.get("pid"),
        "cgroupsPath": linux.get("cgroupsPath"),
        "resources": {key: resources[key] for key in ("cpu", "memory", "hugepageLimits") if key in resources},
    }
    return found | ({"draCpus": given} if given else {})
