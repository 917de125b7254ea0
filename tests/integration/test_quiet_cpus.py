"""``watch --quiet-cpus``: none of our threads may run on a quiet CPU, and what is not sampled is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.working_cgroup import spinner
from toolkit.model.cpuset import CpuSet

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU beside the quiet one"),
]


def masks(pid: int) -> dict[str, CpuSet]:
    """Return where each thread of a process may run, and each of its children's, by name and number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        found[f"{fields['Name']} {task.name}"] = CpuSet.parse(fields["Cpus_allowed_list"])
        for child in (task / "children").read_text().split():
            found |= masks(int(child))
    return found


@pytest.mark.parametrize("word", ["list", "exclusive"])
def test_no_thread_of_ours_may_run_there_and_no_sampler_does(word: str, tmp_path: Path) -> None:
    """By a list, or because a claim has it for itself: in all of the watch but its canaries' home, which is another."""
    quiet = max(os.sched_getaffinity(0))
    with spinner(f"pinproof-quiet-{os.getpid()}") as cgroup:
        claims = tmp_path / "claims.yaml"
        claims.write_text(
            "apiVersion: pinproof/v1\nkind: Claims\nclaims:\n"
            f'  - {{name: db, cgroup: {cgroup}, cpus: "{quiet}", isolation: container}}\n'
        )
        words = ["watch", "--claims", str(claims), "--duration", "2", "--output", str(tmp_path / "runs")]
        words += ["--quiet-cpus", str(quiet) if word == "list" else word]
        watch = subprocess.Popen(
            [sys.executable, "-m", "toolkit", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert watch.stderr is not None
        armed = next((line for line in watch.stderr if "armed" in line), "")
        seen = masks(watch.pid)
        _, said = watch.communicate(timeout=60)
    assert armed, said
    assert len(seen) > 4, "its threads and both canaries"
    assert {name: str(cpus) for name, cpus in seen.items() if quiet in cpus} == {}
    result = json.loads(next((tmp_path / "runs").glob("*/result.json")).read_text())
    assert CpuSet.parse(result["coverage"]["cpus_unsampled"]) == CpuSet.of([quiet])
    (spot,) = [text for text in result["coverage"]["blind_spots"] if "carry no sampler" in text]
    assert f"CPUs {quiet} carry no sampler" in spot
