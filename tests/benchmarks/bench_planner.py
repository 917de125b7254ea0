"""How long it takes to plan 10,000 pods over 100 simulated nodes, and one node with every manager at work.

Run: ``python -m tests.benchmarks bench_planner`` or this file. Asserts nothing about time; prints medians and minima.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from toolkit.allocation.machine import Machine
from toolkit.allocation.planner import plan
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_vector_pod

GIB = 1 << 30
NODES = 100
PODS_PER_NODE = 100


def machine(sockets: int, numa_per_socket: int, cores_per_numa: int) -> Machine:
    """Build a machine with two threads per core, 32 GiB per NUMA node and one cache per node."""
    cores = sockets * numa_per_socket * cores_per_numa
    rows = []
    for cpu in range(2 * cores):
        core = cpu % cores
        numa = core // cores_per_numa
        rows.append([cpu, core, numa // numa_per_socket, numa, numa])
    nodes = [{"id": i, "memory": 32 * GIB, "hugepages": {}} for i in range(sockets * numa_per_socket)]
    return Machine.from_vector({"cpus": rows, "numa": nodes})


def pods(count: int) -> list[Pod]:
    """Build a mix: exclusive, fractional, Burstable, BestEffort, with an init container here and there."""
    made = []
    for i in range(count):
        kind = i % 5
        resources = {"cpu": ("2", "500m", "4", "100m", "")[kind], "memory": "256Mi"}
        both = {"requests": resources, "limits": resources}
        document: dict[str, object] = {"uid": f"p{i}", "name": f"p{i}"}
        if kind == 4:
            document["containers"] = [{"name": "c"}]
        elif kind == 3:
            document["containers"] = [{"name": "c", "resources": {"requests": resources}}]
        else:
            document["containers"] = [{"name": "c", "resources": both}]
            if i % 3 == 0:
                document["initContainers"] = [{"name": "i", "resources": both}]
        made.append(read_vector_pod(document, f"pod {i}"))
    return made


CONFIGS: dict[str, dict[str, object]] = {
    "policy none": {},
    "static": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"},
    "static, best-effort": {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "topologyManagerPolicy": "best-effort",
    },
    "static, memory Static, restricted": {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0",
        "kubeReserved": {"memory": "1Gi"},
        "memoryManagerPolicy": "Static",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "topologyManagerPolicy": "restricted",
    },
}


def measure(run: Callable[[], int]) -> tuple[float, float, int]:
    """Return wall seconds, CPU seconds (what other programs on the machine do not disturb) and what the run counted."""
    wall, cpu = time.perf_counter(), time.process_time()
    counted = run()
    return time.perf_counter() - wall, time.process_time() - cpu, counted


def main() -> None:
    """Print the table."""
    shape = machine(2, 1, 32)
    everything = pods(PODS_PER_NODE)
    print(f"{NODES * PODS_PER_NODE} pods over {NODES} nodes of 128 CPUs, 2 NUMA nodes, SMT2")
    for name, fields in CONFIGS.items():
        config = read_settings(fields, name)

        def fleet(config: NodeConfig = config) -> int:
            return sum(sum(p.admitted for p in plan(everything, config, shape).pods) for _ in range(NODES))

        wall, cpu, admitted = measure(fleet)
        print(f"  {name:36} {cpu:7.2f} s CPU time   {wall:7.2f} s wall   {admitted} admitted")
    big = machine(2, 4, 16)
    print("one node of 256 CPUs, 8 NUMA nodes, SMT2, 60 pods: CPU time per pod")
    for name, fields in CONFIGS.items():
        config = read_settings(fields, name)
        runs = [measure(lambda config=config: len(plan(pods(60), config, big).pods)) for _ in range(5)]
        times = [cpu / 60 for _, cpu, _ in runs]
        print(f"  {name:36} median {statistics.median(times) * 1e3:7.2f} ms   minimum {min(times) * 1e3:7.2f} ms")


if __name__ == "__main__":
    main()
