"""What the tests of the Memory Manager build: machines, pods, a started manager."""

from __future__ import annotations

from typing import Any

from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.manager import MemoryManager
from toolkit.allocation.memory.state import MemoryState
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_vector_pod

GIB = 1 << 30


def machine(nodes: int = 2, gib: int = 8, hugepages: int = 0) -> Machine:
    """One CPU per node, some memory each."""
    return Machine.from_vector(
        {
            "cpus": [[i, i, 0, i, None] for i in range(nodes)],
            "numa": [
                {"id": i, "memory": gib * GIB, "hugepages": {"2Mi": hugepages} if hugepages else {}}
                for i in range(nodes)
            ],
        }
    )


def pod(uid: str, *sizes: str, init: tuple[str, ...] = (), **more: Any) -> Pod:
    """A Guaranteed pod whose containers ask for one CPU and so much memory."""

    def container(name: str, size: str) -> dict[str, Any]:
        both = {"cpu": "1", "memory": size}
        return {"name": name, "resources": {"requests": both, "limits": both}}

    return read_vector_pod(
        {
            "uid": uid,
            "containers": [container(f"c{i}", s) for i, s in enumerate(sizes)],
            "initContainers": [container(f"i{i}", s) for i, s in enumerate(init)],
            **more,
        },
        "pod",
    )


def started(shape: Machine | None = None, *, pod_level: bool = False, quirks: bool = False) -> MemoryManager:
    """A Static policy with 1 GiB reserved on node 0."""
    manager = MemoryManager("Static", shape or machine(), {0: {"memory": GIB}}, pod_level=pod_level, quirks=quirks)
    manager.start(MemoryState())
    return manager


def place(manager: MemoryManager, subject: Pod) -> list[tuple[int, ...]]:
    """Allocate all containers; return their nodes."""
    for container in subject.containers:
        manager.allocate(subject, container)
    return [manager.numa_nodes(subject.uid, c.name) for c in subject.containers]
