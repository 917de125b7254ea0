"""A machine to draw."""

from __future__ import annotations

from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import Cpu, NumaNode, Topology


def machine() -> Topology:
    """Return 2 sockets x 2 cores x 2 threads, one NUMA node and one L3 a socket."""
    cpus = [
        Cpu(
            cpu=i,
            online=True,
            core=i % 4,
            core_key=i % 4,
            siblings=CpuSet.of([i % 4, i % 4 + 4]),
            socket=i % 4 // 2,
            socket_key=i % 4 // 2 * 2,
            numa=i % 4 // 2,
            l3=i % 4 // 2,
            l3_key=i % 4 // 2 * 2,
        )
        for i in range(8)
    ]
    numa = tuple(
        NumaNode(id=n, cpus=CpuSet.of(c.cpu for c in cpus if c.numa == n), mem_bytes=1, memory_only=False)
        for n in (0, 1)
    )
    return Topology(cpus=tuple(cpus), numa=numa, smt_level=2)
