"""What the tests of scenarios build: machines, manifests, scenarios, resizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolkit.model.cpuset import CpuSet
from toolkit.model.scenario import ResizeBehaviour, Scenario
from toolkit.model.topology import Cpu, KubeletCpu, KubeletNode, KubeletView, Topology

STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}


def machine(cpus: int) -> Topology:
    """Return a machine with one socket, one node and cores of one thread."""
    view = KubeletView(
        cpus={
            cpu: KubeletCpu(core_id=cpu, core_key=cpu, socket=0, numa=0, uncore_cache_id=None) for cpu in range(cpus)
        },
        logical_cpus=cpus,
        nodes=(
            KubeletNode(
                id=0, memory=1 << 32, cpus=CpuSet.of(range(cpus)), hugepages_kb={}, distances=(10,), node_l3=()
            ),
        ),
    )
    return Topology(
        cpus=tuple(
            Cpu(cpu=cpu, online=True, core=cpu, core_key=cpu, socket=0, socket_key=0, numa=0) for cpu in range(cpus)
        ),
        kubelet=view,
    )


def container(name: str, cpu: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a container that is Guaranteed by itself, or one without requests."""
    amounts = {"cpu": cpu, "memory": "64Mi"}
    return {"name": name, **more} | ({} if cpu is None else {"resources": {"requests": amounts, "limits": amounts}})


def pod(name: str, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    """Return a manifest."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"initContainers": list(init), "containers": list(containers), **spec},
    }


def scenario(*pods: dict[str, Any], **more: Any) -> Scenario:
    """Return a scenario on a static node."""
    return Scenario(name="s", title="t", kubelet=STATIC, pods=pods, **more)


ON = {**STATIC, "featureGates": {"InPlacePodVerticalScalingExclusiveCPUs": True}}


def resizing(cpu: str = "2", **more: Any) -> Scenario:
    """An exclusive pod of one CPU that wants others, beside a shared one."""
    fields: dict[str, Any] = {"kubelet": ON, "resize_behaviour": ResizeBehaviour.KEP_5554} | more
    base = scenario(pod("db", container("c", "1")), pod("web", container("c")))
    return replace(base, resizes=(pod("db", container("c", cpu)),), **fields)
