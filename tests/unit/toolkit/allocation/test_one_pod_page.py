"""The page that walks one pod through all managers: its numbers and its picture are what the model gives today.

``PINPROOF_WRITE_PICTURE=1`` writes the picture anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.programs import PROJECT
from toolkit.allocation.machine import Machine
from toolkit.allocation.planner import plan
from toolkit.kubernetes.node_config import read_settings
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan
from toolkit.model.topology import Cpu, NumaNode, Topology
from toolkit.report.machine_drawing import svg_drawing
from toolkit.report.machine_owners import owners

PICTURE = PROJECT / "toolkit" / "allocation" / "one-pod.svg"
GI = 1 << 30

KUBELET = {
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "reservedSystemCPUs": "0,8",
    "memoryManagerPolicy": "Static",
    "kubeReserved": {"memory": "1Gi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    "topologyManagerPolicy": "restricted",
}


def container(name: str, cpu: str, memory: str) -> dict[str, object]:
    """Return a container whose requests default to its limits."""
    return {"name": name, "resources": {"limits": {"cpu": cpu, "memory": memory}}}


def planned() -> Plan:
    """Return the plan of the page's pod on the page's machine."""
    cpus = [[cpu, cpu % 8, cpu % 8 // 4, cpu % 8 // 4, cpu % 8 // 4] for cpu in range(16)]
    machine = Machine.from_vector(
        {"cpus": cpus, "numa": [{"id": node, "memory": 16 * GI, "distances": [10, 20]} for node in (0, 1)]}, "page"
    )
    spec = {
        "initContainers": [container("setup", "2", "10Gi")],
        "containers": [container("main", "4", "8Gi"), container("log", "500m", "256Mi")],
    }
    pod = read_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db", "uid": "db"}, "spec": spec}, "page")
    return plan([pod], read_settings(KUBELET, "page"), machine)


def topology() -> Topology:
    """Return the page's machine as hardware."""
    cpus = tuple(
        Cpu(
            cpu=cpu,
            online=True,
            core=cpu % 8,
            core_key=cpu % 8,
            siblings=CpuSet.of([cpu % 8, cpu % 8 + 8]),
            socket=cpu % 8 // 4,
            socket_key=cpu % 8 // 4 * 4,
            numa=cpu % 8 // 4,
            l3=cpu % 8 // 4,
            l3_key=cpu % 8 // 4 * 4,
        )
        for cpu in range(16)
    )
    nodes = tuple(
        NumaNode(id=n, cpus=CpuSet.of(c.cpu for c in cpus if c.numa == n), mem_bytes=16 * GI, memory_only=False)
        for n in (0, 1)
    )
    return Topology(cpus=cpus, numa=nodes, smt_level=2)


def test_the_page_tells_what_the_model_gives() -> None:
    """CPU sets, quota and state file of the page are those of the plan."""
    page = (PROJECT / "toolkit" / "allocation" / "README.md").read_text(encoding="utf-8")
    found = planned()

    cpus = {one.name: str(one.cpus) for one in found.pods[0].containers}
    assert cpus == {"setup": "1,9", "main": "1-2,9-10", "log": "0,3-8,11-15"}
    assert all(f"`{text}`" in page for text in cpus.values())
    assert f"`{found.states['cpu_manager_state']}`" in page
    assert f"]({PICTURE.name})" in page


def test_the_picture_is_current() -> None:
    """The drawing beside the page is what the plan looks like."""
    drawn = svg_drawing(topology(), owners(planned(), topology().online), "db on a machine with two NUMA nodes")
    if os.environ.get("PINPROOF_WRITE_PICTURE") == "1":
        Path(PICTURE).write_text(drawn, encoding="utf-8")

    assert PICTURE.read_text(encoding="utf-8") == drawn
