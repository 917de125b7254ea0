"""Properties of a whole node over random machines, configurations and sequences of pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import examples
from toolkit.allocation.admission import StartupError
from toolkit.allocation.checkpoint.cpu import restore_cpu_state
from toolkit.allocation.checkpoint.memory import restore_memory_state
from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.kubernetes.kubelet_version import SERIES
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_vector_pod
from toolkit.kubernetes.releases import STATE_AS_TEXT
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet

GIB = 1 << 30


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """One or two sockets, one or two NUMA nodes each, one to four cores each, one or two threads."""
    sockets, per_socket, cores, threads = (draw(st.integers(1, n)) for n in (2, 2, 4, 2))
    nodes = sockets * per_socket
    total = nodes * cores
    rows = [
        [cpu, cpu % total, cpu % total // cores // per_socket, cpu % total // cores, cpu % total // cores]
        for cpu in range(total * threads)
    ]
    distances = [[10 if a == b else 20 for b in range(nodes)] for a in range(nodes)]
    numa = [{"id": i, "memory": 8 * GIB, "distances": distances[i]} for i in range(nodes)]
    return Machine.from_vector({"cpus": rows, "numa": numa})


NAMES = (
    "strict-cpu-reservation",
    "distribute-cpus-across-numa",
    "distribute-cpus-across-cores",
    "prefer-align-cpus-by-uncorecache",
)
OPTIONS = st.sampled_from([{}, *({name: "true"} for name in NAMES)])


@st.composite
def configs(draw: st.DrawFn, *, topology: tuple[str, ...], pod_level: bool) -> NodeConfig:
    """A static node that reserves one CPU and 1 GiB."""
    fields: dict[str, Any] = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": draw(OPTIONS),
        "kubeReserved": {"cpu": "1", "memory": "1Gi"},
        "topologyManagerPolicy": draw(st.sampled_from(topology)),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
        "featureGates": {"CPUManagerPolicyAlphaOptions": True, "PodLevelResourceManagers": pod_level},
    }
    if draw(st.booleans()):
        fields["memoryManagerPolicy"] = "Static"
        fields["reservedMemory"] = [{"numaNode": 0, "limits": {"memory": "1Gi"}}]
    return read_settings(fields, "kubelet")


@st.composite
def pods(draw: st.DrawFn, uid: str, *, init: bool = True, budgets: bool = False) -> Pod:
    """One to three containers of any kind."""

    def container(name: str) -> dict[str, Any]:
        cpu = draw(st.sampled_from(["1", "2", "3", "500m", None]))
        if cpu is None:
            return {"name": name}
        amounts = {"cpu": cpu, "memory": draw(st.sampled_from(["256Mi", "1Gi", "9Gi"]))}
        return {"name": name, "resources": {"requests": amounts, "limits": amounts}}

    document: dict[str, Any] = {"uid": uid, "containers": [container(f"c{i}") for i in range(draw(st.integers(1, 2)))]}
    if init and draw(st.booleans()):
        document["initContainers"] = [container("i") | draw(st.sampled_from([{}, {"restartPolicy": "Always"}]))]
    if budgets and draw(st.booleans()):
        amounts = {"cpu": draw(st.sampled_from(["4", "6", "2500m"])), "memory": "12Gi"}
        document["resources"] = {"requests": amounts, "limits": amounts}
    return read_vector_pod(document, uid)


def check(node: Node) -> None:
    """Assert what holds at any time."""
    policy, state = node.cpu_policy, node.cpu_state
    assert isinstance(policy, StaticPolicy)
    strict = policy.strict_reservation
    everything = policy.allocatable if strict else node.machine.cpus
    owned = state.owned()
    assert state.default.isdisjoint(owned)
    assert state.default | owned == everything, "no CPU is lost or invented"
    assert owned.isdisjoint(policy.reserved), "no container owns a reserved CPU"
    taken = 0
    for pod in node.active.values():
        mine = 0
        for container in pod.containers:
            if node.isolation(pod, container) is not Isolation.HOST:
                mine |= state.cpus_of(pod.uid, container.name).mask
        assert not mine & taken, "no CPU belongs to two pods"
        taken |= mine
    for table in (t for n in node.memory.state.nodes.values() for t in n.memory.values()):
        assert table.free + table.reserved == table.allocatable
        assert min(table.free, table.reserved) >= 0
    texts = node.checkpoints()
    gate, text = node.gates.pod_level_managers, bool(STATE_AS_TEXT.of(node.config.series))
    assert text == ("dataChecksum" in (texts.cpu or "")) == ("dataChecksum" in (texts.memory or ""))
    restored = restore_cpu_state(texts.cpu, policy.name, pod_level=gate, wrapped=text)
    assert restored == state.restarted()
    kept = restore_memory_state(texts.memory, node.config.memory_manager_policy, pod_level=gate, wrapped=text)
    assert kept == node.memory.state


ALL = ("none", "best-effort", "restricted", "single-numa-node")


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_node_keeps_its_books(data: st.DataObject) -> None:
    """Whatever pods come and go: disjoint, conserved, never reserved, and everything is back at the end."""
    config = data.draw(configs(topology=ALL, pod_level=data.draw(st.booleans())))
    config = config.of_series(data.draw(st.sampled_from([SERIES, (1, 37)])))
    machine = data.draw(machines())
    try:
        node, fresh = Node(config, machine), Node(config, machine)
    except StartupError:
        return
    for number in range(data.draw(st.integers(1, 8))):
        if node.active and data.draw(st.booleans()):
            node.remove(data.draw(st.sampled_from(sorted(node.active))))
        else:
            pod = data.draw(pods(f"p{number}", budgets=True))
            if node.admit(pod).admitted:
                for container in pod.containers:
                    node.start_container(pod, container)
        check(node)
    for uid in list(node.active):
        node.remove(uid)

    assert node.checkpoints() == fresh.checkpoints()


def has_broken_group(node: Node) -> bool:
    """Say whether a NUMA node left its group without being empty.

    A real fault of the real component: a single-node hint may take memory of a node that is in use in a group, and a
    pod that is refused afterwards leaves the node alone; over that state file a kubelet does not start again.
    """
    nodes = node.memory.state.nodes
    return any(nodes[cell].cells != state.cells for state in nodes.values() for cell in state.cells if cell in nodes)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_restart_changes_nothing(data: st.DataObject) -> None:
    """A kubelet that restarts between two pods ends where one ends that does not.

    Pods of one app container, policies that never refuse: with several containers the real kubelet refuses some pods
    on re-admission (README, "Restarts").
    """
    config = data.draw(configs(topology=("none", "best-effort"), pod_level=data.draw(st.booleans())))
    machine = data.draw(machines())
    try:
        steady, restarting = Node(config, machine), Node(config, machine)
    except StartupError:
        return
    for number in range(data.draw(st.integers(1, 6))):
        pod = data.draw(pods(f"p{number}", init=False))
        assert steady.admit(pod) == restarting.admit(pod)
        if steady.cpu_state.entries and not steady.cpu_state.default:
            # A real fault of the real component: over an empty shared pool it does not start again.
            with pytest.raises(StartupError, match="default cpuset cannot be empty"):
                restarting.restarted()
            return
        if has_broken_group(restarting):
            with pytest.raises(StartupError, match="expected machine state is different"):
                restarting.restarted()
            return
        restarting = restarting.restarted()
        for _, result in restarting.readmit():
            assert result.admitted
        assert restarting.checkpoints() == steady.checkpoints()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_same_pods_give_the_same_state(data: st.DataObject) -> None:
    """Determinism: no order of a set or dictionary shows."""
    config, machine = data.draw(configs(topology=ALL, pod_level=True)), data.draw(machines())
    arriving = [data.draw(pods(f"p{i}", budgets=True)) for i in range(4)]
    try:
        nodes = [Node(config, machine) for _ in range(2)]
    except StartupError:
        return

    assert [nodes[0].admit(p) for p in arriving] == [nodes[1].admit(p) for p in arriving]
    assert nodes[0].checkpoints() == nodes[1].checkpoints()


def test_a_file_of_an_older_version_stays_until_the_state_changes() -> None:
    """With the gate switched on a V2 file migrates in memory; the next change writes V3, a refused pod does too."""
    machine = Machine.from_vector({"cpus": [[i, i, 0, 0, None] for i in range(4)], "numa": [{"id": 0, "memory": GIB}]})
    fields = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    amounts = {"cpu": "1", "memory": "256Mi"}
    exclusive = {"requests": amounts, "limits": amounts}
    pod = read_vector_pod({"uid": "a", "containers": [{"name": "c", "resources": exclusive}]}, "a")
    greedy = read_vector_pod(
        {"uid": "b", "containers": [{"name": f"c{i}", "resources": exclusive} for i in range(5)]}, "b"
    )
    old = Node(read_settings(fields, "k"), machine)
    old.admit(pod)
    gate = read_settings({**fields, "featureGates": {"PodLevelResourceManagers": True}}, "k")
    new = old.restarted(gate)
    list(new.readmit())

    assert new.checkpoints() == old.checkpoints()
    assert not new.admit(greedy).admitted
    assert new.cpu_state == old.cpu_state._replace(reuse_pod=new.cpu_state.reuse_pod, reuse=new.cpu_state.reuse)
    assert new.checkpoints().cpu != old.checkpoints().cpu
    assert new.checkpoints().memory == old.checkpoints().memory
    with pytest.raises(StartupError, match="could not restore state from checkpoint"):
        new.restarted(read_settings(fields, "k"))


def strict_node(reserved: str, **fields: Any) -> tuple[NodeConfig, Machine]:
    """Two CPUs, with a strict reservation."""
    machine = Machine.from_vector({"cpus": [[i, i, 0, 0, None] for i in range(2)], "numa": [{"id": 0, "memory": GIB}]})
    options = {"strict-cpu-reservation": "true"}
    static = {"cpuManagerPolicy": "static", "reservedSystemCPUs": reserved, "cpuManagerPolicyOptions": options}
    return read_settings({**static, **fields}, "k"), machine


def test_a_start_over_an_empty_pool_writes_the_file_anew() -> None:
    """All CPUs are reserved: the pool is filled with nothing, and that is written in this kubelet's version.

    Source: kubernetes v1.36.2, pkg/kubelet/cm/cpumanager/policy_static.go, ``validateState`` (``SetDefaultCPUSet``).
    """
    old = Node(*strict_node("0-1"))
    new = old.restarted(strict_node("0-1", featureGates={"PodLevelResourceManagers": True})[0])

    assert new.cpu_state.default == old.cpu_state.default == CpuSet()
    assert new.checkpoints().cpu == Node(new.config, new.machine).checkpoints().cpu != old.checkpoints().cpu


def test_a_start_that_fails_later_leaves_the_cpu_managers_file_written() -> None:
    """The CPU Manager starts first, and fills the empty pool; then the Memory Manager refuses another policy's file."""
    memory = {"memoryManagerPolicy": "Static", "systemReserved": {"memory": "1Mi"}}
    reserved = {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Mi"}}]}
    old = Node(*strict_node("0-1"))
    with pytest.raises(StartupError, match="differs from state checkpoint policy") as failed:
        old.restarted(strict_node("0", **memory, **reserved)[0])
    assert failed.value.cpu_file is not None
    assert '"defaultCpuSet":"1"' in failed.value.cpu_file

    kept = Node(*strict_node("0"))
    with pytest.raises(StartupError, match="differs from state checkpoint policy") as failed:
        kept.restarted(strict_node("0", **memory, **reserved)[0])
    assert failed.value.cpu_file is None
