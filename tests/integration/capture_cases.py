"""Failures of the field that are in a captured node's own files: which file is changed, and what must be reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.state_edits import Edit, changed, cpu_state, memory_state

CAPTURES = Path(__file__).parents[1] / "data/captures"
CPU, MEMORY, API = "kubelet/cpu_manager_state", "kubelet/memory_manager_state", "podresources.json"
ONE_POD, NUMA, POD_LEVEL = "A-2-g1-just-started", "B1-4-gmix-and-rejections", "B2-4-plr-deleted-gside"


def pool_in_the_api(text: str) -> str:
    """As kubelets before 1.23 answered: a container without CPUs of its own has those of the shared pool."""
    data = json.loads(text)
    pod = next(pod for pod in data["List"]["podResources"] if pod["name"] == "be-node1")
    pod["containers"][0]["cpuIds"] = ["0"]
    return json.dumps(data)


def moved_block(data: Any) -> None:
    """Charge a container's memory to the other node in its entry only."""
    block = data["entries"]["15843523bd9a3fa543a0097f3a4bd516"]["main"][0]
    block["numaAffinity"] = [0]


CASES: dict[str, tuple[str, str, Edit, tuple[str, str, str]]] = {
    "cpus-in-both-sets": (  # F22
        ONE_POD,
        CPU,
        cpu_state(changed("defaultCpuSet", to="0-1")),
        ("checkpoint", "cpu_manager_state", "in the shared pool, too"),
    ),
    "wrong-checksum": (  # F23
        ONE_POD,
        CPU,
        lambda text: text.replace('"defaultCpuSet":"0"', '"defaultCpuSet":"0,1"'),
        ("checkpoint", "cpu_manager_state", "checksum is not that of the content"),
    ),
    "bytes-behind-the-end": (  # F24
        ONE_POD,
        CPU,
        lambda text: text + "}",
        ("checkpoint", "cpu_manager_state", "invalid character"),
    ),
    "another-policy": (  # F25
        ONE_POD,
        CPU,
        lambda _: '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}',
        ("checkpoint", "cpu_manager_state", "policy is none, configured is static"),
    ),
    "pod-level-moved": (  # F26
        POD_LEVEL,
        CPU,
        cpu_state(changed("entries", "0e2581959508b77e83a2016ce726deaa", "a", to="6-7")),
        ("checkpoint", "cpu_manager_state", "not its pod's"),
    ),
    "memory-of-another-node": (  # F28
        POD_LEVEL,
        MEMORY,
        memory_state(moved_block),
        ("checkpoint", "memory_manager_state", "node"),
    ),
    "totals-of-another-boot": (  # F27
        NUMA,
        "sysfs.txt",
        lambda text: text + "/sys/devices/system/node/node0/meminfo: Node 0 MemTotal:  1996516 kB\n",
        ("checkpoint", "memory_manager_state", "the kubelet will not start again"),
    ),
    "another-memory-policy": (  # F29
        NUMA,
        MEMORY,
        lambda _: '{"policyName":"None","machineState":{},"checksum":0}',
        ("checkpoint", "memory_manager_state", "policy is None, configured is Static"),
    ),
    "reserved-cpu-given-away": (  # F32
        ONE_POD,
        CPU,
        cpu_state(lambda data: data.update(defaultCpuSet="1", entries={uid: {"main": "0"} for uid in data["entries"]})),
        ("checkpoint", "cpu_manager_state", "reserved CPU 0 is assigned"),
    ),
    "offline-cpu-stays": (  # F33
        ONE_POD,
        CPU,
        cpu_state(changed("defaultCpuSet", to="0,2")),
        ("checkpoint", "cpu_manager_state", "CPU 2 is in a set but not online"),
    ),
    "cpus-of-init-leaked": (  # F41
        POD_LEVEL,
        CPU,
        cpu_state(lambda data: data["entries"]["15843523bd9a3fa543a0097f3a4bd516"].update(setup="4", main="4")),
        ("checkpoint", "cpu_manager_state", "CPU 5 is in no set: leaked"),
    ),
    "pool-in-the-api": (  # F53
        ONE_POD,
        API,
        pool_in_the_api,
        ("layers-agree", "be-node1/main", "pod-resources"),
    ),
}
"""Failure -> capture, file, what happened to it, and what must say so: rule, subject, a part of the reason."""
