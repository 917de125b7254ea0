"""Replays one allocation scenario and reports what happened in the shape of the vectors' ``expect``.

Source: ``docs/simulate-format.md`` sections "EVENT" and "expect".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from toolkit.allocation.admission import KubeletPanic, StartupError
from toolkit.allocation.memory.state import Block, NodeState
from toolkit.allocation.node import Node
from toolkit.allocation.qos import container_quota_disabled, pod_quota_disabled
from toolkit.allocation.topology.manager import NONE
from toolkit.allocation.vectors import Event, VectorScenario
from toolkit.kubernetes.pod import Container, Pod

Data = dict[str, Any]


def simulate(scenario: VectorScenario, *, quirks: bool = False) -> Data:
    """Replay a scenario.

    :param quirks: reproduce the real components' defects instead of doing the sane thing.
    :returns: plain data: ``startup_error``, or ``startup``, ``events`` (if there are any) and ``final``.
    """
    try:
        node = Node(scenario.config, scenario.machine, devices=scenario.devices, quirks=quirks)
    except StartupError as error:
        return {"startup_error": {"stage": error.stage, "message": error.message}}
    replay = _Replay(node)
    startup: Data = {
        "allocatable_cpus": str(node.cpu_policy.allocatable),
        "default_cpuset": str(node.cpu_state.default),
        **replay.numa_changes(),
    }
    results: list[Data] = []
    for event in scenario.events:
        results.append(replay.step(event))
        if "panic" in results[-1] or "startup_error" in results[-1]:
            break
    final: Data = {}
    texts = replay.node.checkpoints()
    final["cpu_manager_state"], final["memory_manager_state"] = replay.cpu_file or texts.cpu, texts.memory
    if _has_several_blocks(replay.node):
        final["memory_block_order"] = "sorted-by-type"
    return {"startup": startup, **({"events": results} if results else {}), "final": final}


class _Replay:
    """A node in the middle of a scenario, with what was last reported about its NUMA nodes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.reported: dict[int, Data] = {}
        self.cpu_file: str | None = None
        """What a restart that failed has left."""

    def step(self, event: Event) -> Data:
        try:
            result = getattr(self, f"_{event.kind}")(event)
        except KubeletPanic as panic:
            return {"panic": str(panic)}
        except StartupError as error:
            self.cpu_file = error.cpu_file
            return {"startup_error": {"stage": error.stage, "message": error.message}}
        if self.node.cpu_policy.name != "none":
            result["default_cpuset"] = str(self.node.cpu_state.default)
        held = {uid: str(cpus) for uid, cpus in self.node.cpu_state.pods.items() if uid not in self.node.active}
        if held:
            result["leaked"] = {"pod_cpusets": held}
        assert isinstance(result, dict)
        return result | self.numa_changes()

    def _add(self, event: Event) -> Data:
        assert event.pod is not None
        admission = self.node.admit(event.pod)
        if admission.admitted:
            return {"admitted": True, **self._pod(event.pod)}
        return {"admitted": False, "reason": admission.reason, "message": admission.message}

    def _start(self, event: Event) -> Data:
        pod = self.node.active.get(event.uid)
        container = pod.container(event.container) if pod is not None else None
        if pod is None or container is None:
            return {}
        self.node.start_container(pod, container)
        return self._pod(pod)

    def _start_all(self, event: Event) -> Data:
        pod = self.node.active.get(event.uid)
        if pod is None:
            return {}
        for container in pod.containers:
            self.node.start_container(pod, container)
        return self._pod(pod)

    def _remove(self, event: Event) -> Data:
        self.node.remove(event.uid)
        return {}

    def _restart_kubelet(self, event: Event) -> Data:
        self.node = self.node.restarted(event.config, event.machine)
        readmit = []
        for pod, admission in self.node.readmit():
            entry: Data = {"pod": pod.uid, "admitted": admission.admitted}
            if admission.admitted:
                entry["containers"] = self._containers(pod)
            else:
                entry |= {"reason": admission.reason, "message": admission.message}
            readmit.append(entry)
        return {"readmit": readmit} if readmit else {}

    def _pod(self, pod: Pod) -> Data:
        isolations = [self.node.isolation(pod, container) for container in pod.containers]
        result: Data = {
            "containers": self._containers(pod),
            "pod_quota_disabled": pod_quota_disabled(pod, isolations, self.node.gates),
        }
        if pod.uid in self.node.cpu_state.pods:
            result["pod_cpuset"] = str(self.node.cpu_state.pods[pod.uid])
        if pod.uid in self.node.memory.state.pod_entries:
            result["pod_memory"] = blocks_data(self.node.memory.state.pod_entries[pod.uid])
        return result

    def _containers(self, pod: Pod) -> Data:
        return {container.name: self._container(pod, container) for container in pod.containers}

    def _container(self, pod: Pod, container: Container) -> Data:
        node, uid, name = self.node, pod.uid, container.name
        assigned = node.cpu_state.assigned(uid, name)
        isolation = node.isolation(pod, container)
        result: Data = {
            "cpus": str(node.cpu_state.cpus_of(uid, name)),
            "assigned": None if assigned is None else str(assigned),
            "isolation": isolation.value,
            "quota_disabled": container_quota_disabled(isolation, node.gates),
        }
        mems = node.memory.numa_nodes(uid, name)
        if mems:
            result["mems"] = ",".join(map(str, mems))
        blocks = node.memory.state.blocks(uid, name)
        if blocks:
            result["memory"] = blocks_data(blocks)
        hint = node.hints.get(uid, {}).get(name)
        if node.topology.policy != NONE and hint is not None:
            numa = None if hint.numa is None else [i for i in range(hint.numa.bit_length()) if hint.numa >> i & 1]
            result["hint"] = {"numa": numa, "preferred": hint.preferred}
        return result

    def numa_changes(self) -> Data:
        """Report the NUMA nodes that differ from what was reported before."""
        if not self.node.memory.active:
            return {}
        now = {node_id: _numa(state) for node_id, state in self.node.memory.node_states().items()}
        changed = {str(n): now[n] for n in sorted(now) if self.reported.get(n) != now[n]}
        self.reported = now
        return {"numa": changed} if changed else {}


def _numa(state: NodeState) -> Data:
    return {"assignments": state.assignments, "cells": list(state.cells), "free": state.free()}


def blocks_data(blocks: Sequence[Block]) -> list[Data]:
    """Turn blocks into plain data, sorted by type."""
    return [{"numa": list(b.numa), "type": b.type, "size": b.size} for b in sorted(blocks, key=lambda b: b.type)]


def _has_several_blocks(node: Node) -> bool:
    memory = node.memory.state
    owners = [*memory.pod_entries.values(), *(b for pod in memory.entries.values() for b in pod.values())]
    return any(len(blocks) > 1 for blocks in owners)


def differences(expected: object, found: object, path: str = "") -> Iterable[tuple[str, object, object]]:
    """Compare two outcomes; an absent field equals null, empty and false."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from differences(expected.get(key), found.get(key), f"{path}.{key}" if path else key)
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from differences(left, right, f"{path}[{i}]")
    elif expected != found and (expected or found):
        yield path, expected, found
