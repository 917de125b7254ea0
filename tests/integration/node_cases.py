"""Failures of the field that a running node states of itself: what is changed in it, and what must be reported."""

from __future__ import annotations

from typing import Any

from tests.integration.state_edits import Edit, changed, cpu_state, memory_state

G1, BE = "0a1b2c3d-0000-4000-8000-000000000021", "0a1b2c3d-0000-4000-8000-000000000022"
CPU, MEMORY, API = "cpu_manager_state", "memory_manager_state", "pod-resources"
PLAIN = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerReconcilePeriod: 2s
reservedSystemCPUs: '0'
memoryManagerPolicy: Static
evictionHard: {memory.available: 100Mi}
systemReserved: {memory: 100Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}]
"""
POD_LEVEL = (
    PLAIN
    + """
featureGates: {PodLevelResources: true, PodLevelResourceManagers: true}
topologyManagerPolicy: restricted
topologyManagerScope: pod
"""
)
Entry = tuple[str, str, str]
"""Rule, subject, a part of the reason."""


def of_a_container_that_is_gone(data: Any) -> None:
    """The entry is gone with its container, and the CPU did not come back (F41: an init container's)."""
    data["entries"] = {}
    data["defaultCpuSet"] = "0"


def one_boot_later(data: Any) -> None:
    """The firmware kept some kilobytes more for itself at the last boot."""
    table = data["machineState"]["0"]["memoryMap"]["memory"]
    table.update({key: table[key] + 8192 for key in ("total", "allocatable", "free")})


def none_policy(_text: str) -> str:
    return '{"policyName":"None","machineState":{},"checksum":0}'


CASES: dict[str, tuple[str, str, Edit, Entry]] = {
    "cpus-in-both-sets": (  # F22
        PLAIN,
        CPU,
        cpu_state(changed("defaultCpuSet", to="0-1")),
        ("checkpoint", CPU, "in the shared pool, too"),
    ),
    "wrong-checksum": (  # F23
        PLAIN,
        CPU,
        lambda text: text.replace('"defaultCpuSet":"0"', '"defaultCpuSet":"0,1"'),
        ("checkpoint", CPU, "checksum is not that of the content"),
    ),
    "bytes-behind-the-end": (PLAIN, CPU, lambda text: text + "}", ("checkpoint", CPU, "invalid character")),  # F24
    "another-policy": (  # F25
        PLAIN,
        CPU,
        lambda _: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
        ("checkpoint", CPU, "policy is none, configured is static"),
    ),
    "pod-level-moved": (  # F26
        POD_LEVEL,
        CPU,
        cpu_state(changed("entries", G1, "main", to="0")),
        ("checkpoint", CPU, "not its pod's"),
    ),
    "totals-of-another-boot": (  # F27
        PLAIN,
        MEMORY,
        memory_state(one_boot_later),
        ("checkpoint", MEMORY, "the kubelet will not start again"),
    ),
    "another-memory-policy": (  # F29
        PLAIN,
        MEMORY,
        none_policy,
        ("checkpoint", MEMORY, "policy is None, configured is Static"),
    ),
    "reserved-cpu-given-away": (  # F32
        PLAIN,
        CPU,
        cpu_state(lambda data: data.update(defaultCpuSet="1", entries={G1: {"main": "0"}})),
        ("checkpoint", CPU, "reserved CPU 0 is assigned"),
    ),
    "offline-cpu-stays": (  # F33: the machine has CPUs 0 and 1
        PLAIN,
        CPU,
        cpu_state(changed("defaultCpuSet", to="0,2")),
        ("checkpoint", CPU, "CPU 2 is in a set but not online"),
    ),
    "cpus-of-init-leaked": (  # F41
        PLAIN,
        CPU,
        cpu_state(of_a_container_that_is_gone),
        ("checkpoint", CPU, "CPU 1 is in no set: leaked"),
    ),
}
"""Failure -> how the kubelet is set up, its file, what happened to it, and what must say so."""
