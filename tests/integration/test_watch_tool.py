"""``watch --podman FILE``: what podman printed, watched on real cgroups; what is not here is named and left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolkit.apply.sandbox import sandbox
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind

pytestmark = pytest.mark.integration

ONLINE = CpuSet.of(os.sched_getaffinity(0))


RECORDED = Path(__file__).parents[1] / "data/sources/podman-inspect.json"


def container(name: str, cgroup: str, cpus: CpuSet) -> dict[str, Any]:
    """What podman printed of a container, with another name, place and set."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())[0]
    limits = dict.fromkeys(("CpuShares", "CpuPeriod", "CpuQuota", "NanoCpus", "Memory"), 0)
    found["State"] |= {"CgroupPath": cgroup}
    found["HostConfig"] |= limits | {"CpusetCpus": str(cpus), "CpusetMems": ""}
    return found | {"Name": name, "Id": name, "OCIRuntime": "runc"}


@pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values")
def test_containers_of_a_file_are_watched(tmp_path: Path) -> None:
    """One keeps to its CPUs, one has others than podman says; the third does not run here."""
    one, two = CpuSet.of([min(ONLINE)]), CpuSet.of([max(ONLINE)])
    containers = tuple(
        ContainerRequest(
            claim=name, cgroup=CgroupRequest(path=name, cpus=two), workloads=(Workload(kind=WorkloadKind.PULSE),)
        )
        for name in ("right", "wrong")
    )
    with sandbox(SandboxRequest(containers=containers), run_id=f"tool-{os.getpid()}") as live:
        places = {container.claim: container.cgroup for container in live.value.containers}
        file = tmp_path / "inspected"
        known = (("right", places["right"], two), ("wrong", places["wrong"], one), ("gone", "/no", two))
        file.write_text(json.dumps([container(*one) for one in known]))
        command = [sys.executable, "-m", "toolkit", "watch", "--podman", file, "--duration", "3", "--json"]
        done = subprocess.run(
            [*command, "--output", tmp_path / "runs"], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 1, done.stderr
    assert "not watched: gone: its cgroup /no does not exist" in done.stderr
    verdicts = {(one["rule"], one["subject"]): one["outcome"] for one in json.loads(done.stdout)["verdicts"]}

    assert verdicts["cpuset-containment", "right"] == "passed"
    assert verdicts["cpuset-containment", "wrong"] == "failed"
    assert verdicts["applied", "wrong"] == "failed"
