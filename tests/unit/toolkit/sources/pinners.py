"""Files of programs beside the kubelet that pin containers, in the forms in which these write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SECRET = "hunter2"
CLAIM = "6f1d8b2e-0c52-4f0e-9e0e-3f7f3a2b1c4d"
CDI_NAME = f"dra.k8s.io-cpu_claim-{CLAIM}.json"


def cached(cpus: str, mems: str = "", shares: int | None = None) -> dict[str, Any]:
    """A container in the cache of nri-plugins, with what a pod may keep secret."""
    cpu = {"cpus": cpus} if cpus else {}
    cpu |= {"mems": mems} if mems else {}
    return {
        "Ctr": {
            "id": "x",
            "pod_sandbox_id": "y",
            "name": "main",
            "state": 3,
            "labels": {"l": SECRET},
            "annotations": {"a": SECRET},
            "args": ["sh", SECRET],
            "env": [f"PASSWORD={SECRET}"],
            "mounts": [{"source": f"/{SECRET}"}],
            "linux": {
                "resources": {
                    "memory": {"limit": {"value": 67108864}},
                    "cpu": cpu | ({"shares": {"value": shares}} if shares else {}),
                },
                "cgroups_path": "/x",
            },
        },
        "Requirements": {"requests": {"cpu": "2"}},
        "PodResources": None,
        "ResourceUpdates": None,
        "Tags": {},
        "CgroupDir": "",
    }


def grant(container: str, exclusive: str, *, part: int = 0, kind: int = 0) -> dict[str, Any]:
    """A grant of the topology-aware policy. :param part: of the shared pool. :param kind: 2 leaves CPUs alone."""
    return {
        "PrettyName": f"default/{SECRET}/main",
        "Exclusive": exclusive,
        "Part": part,
        "CPUType": kind,
        "CPUClass": "",
        "Container": container,
        "Pool": "NUMA node #0",
        "MemoryPool": 1,
        "MemType": 0,
        "MemSize": 0,
        "ColdStart": 0,
        "Irqs": None,
    }


def cache(
    containers: Mapping[str, dict[str, Any]], grants: Mapping[str, dict[str, Any]] | None = None, **changes: Any
) -> bytes:
    """The cache file. :param grants: of topology-aware, by container; ``None``: balloons wrote it."""
    policy = "balloons" if grants is None else "topology-aware"
    entries = {} if grants is None else {"allocations": json.dumps(grants), "config": json.dumps({"s": SECRET})}
    found = {
        "Version": "1",
        "Pods": {"y": {"Pod": {"id": "y", "name": SECRET}, "QOSClass": "Guaranteed"}},
        "Containers": dict(containers),
        "NextID": 9,
        "PolicyName": policy,
        "PolicyJSON": entries,
    }
    return json.dumps(found | changes).encode()


def specification(cpus: str, claim: str = CLAIM, **changes: Any) -> bytes:
    """A CDI specification of dra-driver-cpu."""
    edits = {"env": [f"DRA_CPUSET_{claim}={cpus}"]}
    found = {
        "cdiVersion": "0.8.0",
        "kind": "dra.k8s.io/cpu",
        "devices": [{"name": f"claim-{claim}", "containerEdits": edits}],
        "containerEdits": {},
    }
    return json.dumps(found | changes).encode()
