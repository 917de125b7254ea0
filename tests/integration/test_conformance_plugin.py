"""pytest in pytest: the shipped suite, and a check of a user's own, honest and broken."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).resolve().parents[2]
HONEST = """
def test_db_keeps_its_cpu(pinproof_host, pinproof_sandbox, pinproof_observe):
    last = str(max(pinproof_host.online))
    box = pinproof_sandbox({"db": last}, exclusive=["db"])
    pinproof_observe(box, seconds=1.0).require()
"""
BROKEN = """
from toolkit.model.sandbox import Workload, WorkloadKind

def test_db_keeps_its_cpu(pinproof_host, pinproof_sandbox, pinproof_observe):
    box = pinproof_sandbox({"db": str(max(pinproof_host.online))}, exclusive=["db"])
    box.live.set_cpus("db", pinproof_host.online)
    box.live.spawn("db", Workload(kind=WorkloadKind.AFFINITY_ESCAPER))
    pinproof_observe(box, seconds=1.0).require()
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as a user would, in a folder of its own, from the checkout if pinproof is not installed."""
    installed = any(entry.value == "validators.plugin" for entry in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "validators.plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder), *plugin, *arguments],
        cwd=folder,
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What one pytest says of two checks of one's own and some scenarios of the suite."""
    folder = tmp_path_factory.mktemp("checks")
    for name, source in (("honest", HONEST), ("broken", BROKEN)):
        (folder / f"test_{name}.py").write_text(source)
    done = run_pytest(
        folder,
        *("test_honest.py", "test_broken.py", "--pyargs", "validators.conformance", "--pinproof-duration", "1"),
        *("-rs", "-v", "-k", "memory-app or pile-up or numa-closest or keeps_its_cpu"),
    )
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    return text


def test_checks_of_ones_own(said: str) -> None:
    """Four lines suffice: an honest container passes, one that was let loose fails and is named."""
    if "test_honest.py::test_db_keeps_its_cpu FAILED" in said and "AssertionError: undecided: " in said:
        pytest.skip(f"the machine was too busy: {said[-600:]}")
    assert "test_honest.py::test_db_keeps_its_cpu PASSED" in said, said
    assert "test_broken.py::test_db_keeps_its_cpu FAILED" in said, said
    assert "cpuset-containment db" in said


def test_the_shipped_suite_runs_by_name(said: str) -> None:
    """``--pyargs validators.conformance`` has a test for each scenario; what does not fit is skipped with a reason."""
    assert "test_scenario[numa-closest] SKIPPED" in said, said
    assert "needs " in said or "--pinproof-full" in said
    assert "test_scenario[pile-up] SKIPPED" in said
    assert "5 selected" in said
