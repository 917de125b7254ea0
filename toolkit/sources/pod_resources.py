"""The kubelet's pod-resources socket: CPUs, memory and devices that belong to one container alone.

It names pods without UIDs, and lists only exclusive CPUs.

Source: Kubernetes documentation "Pod-level resource managers reference" (PodResources API);
https://github.com/kubernetes/kubelet/blob/master/pkg/apis/podresources/v1/api.proto;
https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
(where the socket is, that GetAllocatableResources is stable since 1.28).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import TracebackType
from typing import Any

from toolkit.sources.grpc_socket import Connection, UnimplementedError, as_json
from toolkit.sources.messages import Table, build

SOCKET = "pod-resources/kubelet.sock"
"""Below the kubelet's root directory."""
SERVICE = "v1.PodResourcesLister"

TABLE: Table = {
    "NUMANode": {"ID": (1, "int64")},
    "TopologyInfo": {"nodes": (1, "NUMANode[]")},
    "ContainerDevices": {
        "resource_name": (1, "string"),
        "device_ids": (2, "string[]"),
        "topology": (3, "TopologyInfo"),
    },
    "ContainerMemory": {"memory_type": (1, "string"), "size": (2, "uint64"), "topology": (3, "TopologyInfo")},
    "ContainerResources": {
        "name": (1, "string"),
        "devices": (2, "ContainerDevices[]"),
        "cpu_ids": (3, "int64[]"),
        "memory": (4, "ContainerMemory[]"),
        "dynamic_resources": (5, "DynamicResource[]"),
    },
    # As of v1.27, claims of DRA; driver, pool and device as of v1.34.
    "DynamicResource": {
        "claim_name": (2, "string"),
        "claim_namespace": (3, "string"),
        "claim_resources": (4, "ClaimResource[]"),
    },
    "ClaimResource": {
        "cdi_devices": (1, "CDIDevice[]"),
        "driver_name": (2, "string"),
        "pool_name": (3, "string"),
        "device_name": (4, "string"),
    },
    "CDIDevice": {"name": (1, "string")},
    "PodResources": {
        "name": (1, "string"),
        "namespace": (2, "string"),
        "containers": (3, "ContainerResources[]"),
        # As of v1.37: what a pod has as a whole; containers that share of it have none of their own then.
        "cpu_ids": (4, "int64[]"),
        "memory": (5, "ContainerMemory[]"),
    },
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources[]")},
    "AllocatableResourcesRequest": {},
    "AllocatableResourcesResponse": {
        "devices": (1, "ContainerDevices[]"),
        "cpu_ids": (2, "int64[]"),
        "memory": (3, "ContainerMemory[]"),
    },
}
Answer = dict[str, Any]


@cache
def _classes() -> dict[str, Any]:
    return build("v1", TABLE, {})


class PodResources:
    """The socket; a context manager. Errors as :class:`toolkit.sources.cri.Cri`; answers as protobuf's JSON."""

    def __init__(self, endpoint: str, deadline_s: float | None = None) -> None:
        """Connect. :param endpoint: ``unix:///var/lib/kubelet/pod-resources/kubelet.sock``, or the path alone."""
        self._connection = Connection(endpoint, SERVICE, _classes(), deadline_s)

    def __enter__(self) -> PodResources:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.__exit__(kind, error, trace)

    def pods(self) -> Answer:
        """List what each container has."""
        listed = [as_json(message) for message in self.pod_messages()]
        return {"podResources": listed} if listed else {}

    def pod_messages(self) -> Sequence[Any]:
        """List the same as messages, one a pod."""
        words = "List", "ListPodResourcesRequest", "ListPodResourcesResponse"
        found: Sequence[Any] = self._connection.message(*words).pod_resources
        return found

    def allocatable(self) -> Answer | None:
        """Ask what the kubelet may hand out; ``None``: it is older than 1.23, or has the gate off."""
        names = "AllocatableResourcesRequest", "AllocatableResourcesResponse"
        try:
            return self._connection.call("GetAllocatableResources", *names)
        except UnimplementedError:
            return None
