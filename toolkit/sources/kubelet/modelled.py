"""The node's kubelet, started in the model on the machine that was captured: which CPUs it reserves where its
configuration gives an amount, and what its options promise. From configuration and machine, never from its answers.

Source: docs/facts.md K-kubelet-4; Kubernetes documentation "Reserve Compute Resources for System Daemons".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from toolkit.allocation.admission import StartupError
from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import CPU
from toolkit.model.node_reading import NodeReading
from toolkit.model.topology import Topology
from toolkit.sources.kubelet.bundle_machine import capture_topology
from toolkit.sources.kubelet.settings import Settings

STATIC = "static"


@lru_cache(maxsize=4)
def captured_topology(sysfs: str | None) -> Topology | str:
    """Return the machine that lines of sysfs describe, or why they do not."""
    try:
        return capture_topology(NodeReading(sysfs=sysfs), "sysfs.txt")
    except InputError:
        return "the topology of its CPUs was not captured"


@lru_cache(maxsize=4)
def _machine(sysfs: str | None) -> Machine | str:
    topology = captured_topology(sysfs)
    if isinstance(topology, str):
        return topology
    if topology.kubelet.error is not None:
        return f"the kubelet's discovery fails on this topology: {topology.kubelet.error}"
    try:
        return Machine.from_topology(topology.kubelet)
    except InputError as error:
        return str(error)


def modelled_node(reading: NodeReading, config: NodeConfig) -> Node | str:
    """Start the node's kubelet, or say why that cannot be.

    Memory is not managed: what is asked here is about CPUs, and the node's totals may be unknown.
    """
    machine = _machine(reading.sysfs)
    if isinstance(machine, str):
        return machine
    gates = config.feature_gates.without(config.feature_gates.refused)
    plain = replace(
        config,
        memory_manager_policy="None",
        reserved_memory=(),
        eviction_hard={},
        kube_reserved=_cpus(config.kube_reserved),
        system_reserved=_cpus(config.system_reserved),
        feature_gates=gates,
    )
    try:
        return Node(plain, machine)
    except (StartupError, InputError) as error:
        return str(error)


def _cpus(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if name == CPU}


def reserves_an_amount(known: Settings) -> bool:
    """Whether the configuration leaves it to the kubelet which CPUs it reserves."""
    config = known.config
    return not (known.problem or config.reserved_system_cpus) and config.cpu_manager_policy == STATIC


def with_reserved(known: Settings, reading: NodeReading) -> Settings:
    """Add which CPUs are reserved where only their number is configured: the kubelet takes them as for a container."""
    if not reserves_an_amount(known):
        return known
    node = modelled_node(reading, known.config)
    if isinstance(node, str):
        return replace(known, reserved_problem=node)
    assert isinstance(node.cpu_policy, StaticPolicy)
    return replace(known, reserved=node.cpu_policy.reserved)
