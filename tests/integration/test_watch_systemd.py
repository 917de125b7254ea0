"""``watch --systemd FILE``: a service that ``CPUAffinity=`` binds by its threads' masks, in no cpuset of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.json_lines import result_in
from toolkit.apply.sandbox import sandbox
from toolkit.model.cpuset import CpuSet
from toolkit.model.sandbox import CgroupRequest, ContainerRequest, SandboxRequest, Workload, WorkloadKind

ONLINE = CpuSet.of(os.sched_getaffinity(0))
ONE, TWO = min(ONLINE), max(ONLINE)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(len(ONLINE) < 2, reason="a set must have two values"),
]


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[Path, list[int]]]:
    """A service that works with its mask on one CPU; yields what systemctl prints of it, and its threads."""
    request = ContainerRequest(
        claim="aff", cgroup=CgroupRequest(path="aff"), workloads=(Workload(kind=WorkloadKind.PULSE),)
    )
    with sandbox(SandboxRequest(containers=(request,)), run_id=f"unit-{os.getpid()}") as live:
        (container,) = live.value.containers
        threads = [int(one.name) for pid in container.pids for one in Path(f"/proc/{pid}/task").iterdir()]
        for thread in threads:
            os.sched_setaffinity(thread, {ONE})
        file = folder / "show"
        unit = f"Id=aff.service\nActiveState=active\nControlGroup={container.cgroup}\nCPUAffinity={ONE}\n"
        file.write_text(f"{unit}AllowedCPUs=\nEffectiveCPUs={ONLINE}\nNUMAPolicy=n/a\nNUMAMask=\n")
        yield file, threads


def watched(folder: Path, option: str, file: Path) -> tuple[dict[str, dict[str, Any]], str]:
    command = [sys.executable, "-m", "toolkit", "watch", option, file, "--duration", "3", "--json"]
    done = subprocess.run(
        [*command, "--output", folder / "runs"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    found = result_in(done.stdout)["verdicts"]
    return {one["rule"]: one for one in found if one["subject"] == "aff.service"}, done.stderr


@pytest.mark.parametrize("option", ["--systemd", "--claims"])
def test_masks_and_switches_judge_it(tmp_path: Path, option: str) -> None:
    """No control file has its CPUs, so none is compared; a thread whose mask was widened is a failure of both rules."""
    with service(tmp_path) as (file, threads):
        if option == "--claims":
            command = [sys.executable, "-m", "toolkit", "claims", "--systemd", file]
            printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
            file.write_text(printed)
        honest, _ = watched(tmp_path, option, file)
        for thread in threads:
            os.sched_setaffinity(thread, {TWO})
        broken, _ = watched(tmp_path, option, file)
    assert {rule: honest[rule]["outcome"] for rule in ("affinity-mask", "cpuset-containment", "applied")} == {
        "affinity-mask": "passed",
        "cpuset-containment": "passed",
        "applied": "skipped",
    }
    assert [broken[rule]["outcome"] for rule in ("affinity-mask", "cpuset-containment")] == ["failed", "failed"]
    assert {row["cpu"] for row in broken["cpuset-containment"]["offenders"]} == {TWO}


def test_a_moment_before_it_is_bound_is_no_violation(tmp_path: Path) -> None:
    """systemd binds each process that it starts a moment after it is in the unit's cgroup: undecided, not failed."""
    with service(tmp_path) as (file, threads):
        command = [sys.executable, "-m", "toolkit", "watch", "--systemd", file, "--duration", "4", "--json"]
        with subprocess.Popen(
            [*command, "--output", tmp_path / "runs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert "following" in process.stderr.readline()
            for thread in threads:
                os.sched_setaffinity(thread, {TWO})
                os.sched_setaffinity(thread, {ONE})
            said, _ = process.communicate(timeout=120)
    found = {one["rule"]: one for one in result_in(said)["verdicts"] if one["subject"] == "aff.service"}
    assert found["cpuset-containment"]["outcome"] in ("passed", "undecided"), found["cpuset-containment"]
    assert found["affinity-mask"]["outcome"] in ("passed", "undecided"), found["affinity-mask"]
