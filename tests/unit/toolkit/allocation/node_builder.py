"""What the tests of plans, statements and resizes build: machines, configurations, pods."""

from __future__ import annotations

from typing import Any

from toolkit.allocation.machine import Machine
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_pod

GIB = 1 << 30


def machine(nodes: int = 2, cores: int = 4) -> Machine:
    """``nodes`` NUMA nodes of ``cores`` cores with two threads: CPU i and its sibling i + nodes * cores."""
    total = nodes * cores
    return Machine.from_vector(
        {
            "cpus": [[cpu, cpu % total, 0, cpu % total // cores, cpu % total // cores] for cpu in range(2 * total)],
            "numa": [{"id": i, "memory": 16 * GIB} for i in range(nodes)],
        }
    )


def config(**fields: Any) -> NodeConfig:
    """A static policy that reserves CPU 0 and its sibling 8, and more fields."""
    return read_settings({"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8", **fields}, "kubelet")


def both(cpu: str, memory: str = "1Gi", **more: str) -> dict[str, Any]:
    """Equal requests and limits."""
    amounts = {"cpu": cpu, "memory": memory, **more}
    return {"requests": amounts, "limits": amounts}


def pod(name: str, *resources: dict[str, Any], **spec: Any) -> Pod:
    """A pod with containers c0, c1, …"""
    body = {"containers": [{"name": f"c{i}", "resources": r} for i, r in enumerate(resources)], **spec}
    return read_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}, name)


BUDGET = {"requests": {"cpu": "4", "memory": "4Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}
PLR: dict[str, Any] = {
    "featureGates": {"PodLevelResourceManagers": True},
    "topologyManagerPolicy": "restricted",
    "topologyManagerScope": "pod",
}
AFFINITY = "Resources cannot be allocated with Topology locality"
GATE = {"featureGates": {"InPlacePodVerticalScalingExclusiveCPUs": True}}
STATIC_MEMORY: dict[str, Any] = {
    "memoryManagerPolicy": "Static",
    "systemReserved": {"memory": "100Mi"},
    "evictionHard": {"memory.available": "0%"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "100Mi"}}],
}
GATES = {"PodLevelResources": True, "PodLevelResourceManagers": True, "CPUManagerPolicyAlphaOptions": True}
POD_SCOPE: dict[str, Any] = {
    "topologyManagerPolicy": "best-effort",
    "topologyManagerScope": "pod",
    "featureGates": GATES,
}
SHARED: dict[str, Any] = {}


def budget(cpu: str, *resources: dict[str, Any]) -> Pod:
    """Return a pod with a budget of CPUs."""
    return pod("db", *resources, resources=both(cpu, "4Gi"))
