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


NAMES = ("pod-level-shared", "exclusive-and-shared", "pod-level-exclusive")


@pytest.fixture(scope="module")
def said_and_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Path]]:
    """One ``pinproof run`` of all: of each scenario, what was printed of it and where it was saved."""
    folder = tmp_path_factory.mktemp("said") / "runs"
    command = [sys.executable, "-m", "toolkit", "run", *(str(SCENARIOS / f"{name}.yaml") for name in NAMES)]
    command += ["--duration", "1.5", "--output", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    begins = [done.stdout.index(f"{name}: ") for name in NAMES]
    assert begins == sorted(begins), done.stdout + done.stderr
    texts = [done.stdout[begin:end] for begin, end in zip(begins, [*begins[1:], None], strict=True)]
    paths = [next(folder.glob(f"*-{name}-*")) for name in NAMES]
    return dict(zip(NAMES, zip(texts, paths, strict=True), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_what_was_on_the_exclusive_cpus(name: str, said_and_runs: dict[str, tuple[str, Path]]) -> None:
    """Named are the containers that may use the CPUs and used CPU time by their cgroups' own account, and no other."""
    text, path = said_and_runs[name]
    run = load_run(path)
    judged = {v.outcome for v in load_result(path).verdicts if v.rule == "exclusive-cpus"}
    assert Outcome.FAILED not in judged
    if Outcome.UNDECIDED in judged:
        pytest.skip(f"the machine was too busy: {text[-300:]}")

    said = re.findall(r"exclusive CPUs? (\S+) hosted only (.*?)\. ", " ".join(text.split()))
    used = {row.claim for row in run.evidence.bandwidth if row.level == 0 and (row.usage_ns or 0) > 0}
    assert said
    for cpus, sentence in said:
        owners = {c.name for c in run.claims.claims if str(c.cpus) == cpus and c.name in used}
        assert set(re.findall(r"`([^`]+)`", sentence)) == owners
    assert len(said) == len({cpus for cpus, _ in said})
