"""A device plugin over gRPC: it registers with a running kubelet, lists made-up devices, and gives them without a word.

Source: Kubernetes documentation, "Device Plugins"; k8s.io/kubelet ``pkg/apis/deviceplugin/v1beta1/api.proto``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from tests.integration.real_kubelet import DEADLINE_S, PLUGINS
from toolkit.sources.grpc_socket import Connection
from toolkit.sources.messages import Table, build

grpc = pytest.importorskip("grpc", reason="grpcio is not installed (pip install 'pinproof[kubelet]')")

VERSION = "v1beta1"
TABLE: Table = {
    "Empty": {},
    "DevicePluginOptions": {},
    "RegisterRequest": {"version": (1, "string"), "endpoint": (2, "string"), "resource_name": (3, "string")},
    "NUMANode": {"ID": (1, "int64")},
    "TopologyInfo": {"nodes": (1, "NUMANode[]")},
    "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
    "ListAndWatchResponse": {"devices": (1, "Device[]")},
    "ContainerAllocateRequest": {"devicesIDs": (1, "string[]")},
    "AllocateRequest": {"container_requests": (1, "ContainerAllocateRequest[]")},
    "ContainerAllocateResponse": {},
    "AllocateResponse": {"container_responses": (1, "ContainerAllocateResponse[]")},
}


class _Plugin:
    """The plugin's own calls. :param devices: id to the NUMA node that it states, or to none."""

    def __init__(self, devices: Mapping[str, int | None]) -> None:
        self._classes = build(VERSION, TABLE, {})
        self._devices, self.ends = devices, threading.Event()

    def options(self, _request: bytes, _context: object) -> bytes:
        return b""

    def watch(self, _request: bytes, _context: object) -> Iterator[bytes]:
        """List all devices once; nothing changes until the plugin ends."""
        made = self._classes["ListAndWatchResponse"]()
        for name, node in self._devices.items():
            device = made.devices.add(ID=name, health="Healthy")
            if node is not None:
                device.topology.nodes.add(ID=node)
        yield made.SerializeToString()
        self.ends.wait()

    def allocate(self, request: bytes, _context: object) -> bytes:
        """Answer for each container with nothing: no environment, no mount, no device file."""
        asked = self._classes["AllocateRequest"].FromString(request)
        answer = self._classes["AllocateResponse"]()
        for _ in asked.container_requests:
            answer.container_responses.add()
        data: bytes = answer.SerializeToString()
        return data


@contextlib.contextmanager
def device_plugin(resource: str, devices: Mapping[str, int | None], folder: Path = PLUGINS) -> Iterator[None]:
    """Run a plugin that a kubelet knows. :param folder: where the kubelet's socket of plugins is."""
    plugin, server = _Plugin(devices), grpc.server(futures.ThreadPoolExecutor(4))
    calls = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(plugin.options),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(plugin.watch),
        "Allocate": grpc.unary_unary_rpc_method_handler(plugin.allocate),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{VERSION}.DevicePlugin", calls),))
    socket = folder / f"{resource.replace('/', '-')}.sock"
    assert server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        classes: dict[str, Any] = build(VERSION, TABLE, {})
        with Connection(str(folder / "kubelet.sock"), f"{VERSION}.Registration", classes, DEADLINE_S) as kubelet:
            said = {"version": VERSION, "endpoint": socket.name, "resource_name": resource}
            kubelet.call("Register", "RegisterRequest", "Empty", **said)
        yield
    finally:
        plugin.ends.set()
        server.stop(None).wait()
        socket.unlink(missing_ok=True)
