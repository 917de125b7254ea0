"""A machine whose cores have different numbers of threads online."""

from __future__ import annotations

from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import Cpu, KubeletCpu, KubeletNode, KubeletView, Topology


def smt_machine(cores: int, offline: str = "") -> Topology:
    """One socket of cores with two threads, CPU n and n + ``cores``, of which some are offline."""
    online = CpuSet.of(range(2 * cores)) - CpuSet.parse(offline)
    places = {cpu: min(CpuSet.of((cpu % cores, cpu % cores + cores)) & online) for cpu in online}
    return Topology(
        cpus=tuple(
            Cpu(cpu=cpu, online=True, core=cpu % cores, core_key=key, socket=0, socket_key=0, numa=0)
            for cpu, key in places.items()
        ),
        kubelet=KubeletView(
            cpus={
                cpu: KubeletCpu(core_id=cpu % cores, core_key=key, socket=0, numa=0, uncore_cache_id=None)
                for cpu, key in places.items()
            },
            logical_cpus=len(online),
            nodes=(KubeletNode(id=0, memory=1 << 32, cpus=online, hugepages_kb={}, distances=(10,), node_l3=()),),
        ),
    )
