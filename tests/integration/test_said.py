"""What ``pinproof run`` says in its last sentence, held against what the kernel's own accounts say of the same run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.model.verdict import Outcome
from toolkit.store import load_result, load_run

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="a run needs root"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="an exclusive CPU and a shared one are needed"),
]
SCENARIOS = Path(__file__).resolve().parents[2] / "validators/scenarios"


@pytest.mark.parametrize("name", ["pod-level-shared", "exclusive-and-shared", "pod-level-exclusive"])
def test_who_was_on_the_exclusive_cpus(name: str, tmp_path: Path) -> None:
    """Named are the containers that may use the CPUs and used CPU time by their cgroups' own account, and no other."""
    command = [sys.executable, "-m", "toolkit", "run", str(SCENARIOS / f"{name}.yaml"), "--duration", "1.5"]
    command += ["--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (path,) = tmp_path.iterdir()
    run = load_run(path)
    judged = {v.outcome for v in load_result(path).verdicts if v.rule == "exclusive-cpus"}
    assert Outcome.FAILED not in judged
    if Outcome.UNDECIDED in judged:
        pytest.skip(f"the machine was too busy: {done.stdout[-300:]}")

    said = re.findall(r"exclusive CPUs? (\S+) hosted only (.*?)\. ", " ".join(done.stdout.split()))
    used = {row.claim for row in run.evidence.bandwidth if row.level == 0 and (row.usage_ns or 0) > 0}
    assert said
    for cpus, sentence in said:
        owners = {c.name for c in run.claims.claims if str(c.cpus) == cpus and c.name in used}
        assert set(re.findall(r"`([^`]+)`", sentence)) == owners
    assert len(said) == len({cpus for cpus, _ in said})
