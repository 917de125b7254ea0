"""How many series a real watch of 100 claims exports: by rule a bounded number, by claim each of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.probe_lab import BURSTS, cgroup, join
from toolkit.report.metrics import MAX_SERIES

ONLINE = Path("/sys/devices/system/cpu/online").read_text().strip()
CLAIMS = 100
pytestmark = [pytest.mark.integration, pytest.mark.beside]


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A claims file about 100 cgroups, a task in some of them."""
    names = [f"pinproof-series-{os.getpid()}-{number}" for number in range(CLAIMS)]
    rows = [f'- {{name: c{number}, cgroup: /{name}, cpus: "{ONLINE}"}}' for number, name in enumerate(names)]
    path = tmp_path_factory.mktemp("series") / "claims.yaml"
    path.write_text("\n".join(["apiVersion: pinproof/v1", "kind: Claims", "claims:", *rows]) + "\n")
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(cgroup(name))
        for name in names[:3]:
            task = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURSTS]))
            stack.callback(task.kill)
            join(f"/{name}", task.pid)
        yield path


def series(folder: Path, claims: Path, *options: str) -> list[dict[str, str]]:
    """Labels of each series that a watch of two windows leaves in its metrics file; its name is one of them."""
    path = folder / "pinproof.prom"
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--window", "2", "--duration", "4"]
    done = subprocess.run(
        [*command, "--output", str(folder / "runs"), "--metrics-file", str(path), *options],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
    families = text_string_to_metric_families(path.read_text())
    return [{"__name__": sample.name, **sample.labels} for one in families for sample in one.samples]


def test_by_rule_a_node_has_few_series(tmp_path: Path, claims: Path) -> None:
    """The default: at most 250, none with a claim's name."""
    found = series(tmp_path, claims)
    print(f"{len(found)} series by rule")
    assert len(found) <= MAX_SERIES
    assert {one.get("claim", "other") for one in found} == {"other"}
    assert any(one["__name__"] == "pinproof_window_verdicts_total" for one in found)


def test_by_claim_each_has_its_series(tmp_path: Path, claims: Path) -> None:
    """The option: an operator who asks for it gets the names."""
    found = series(tmp_path, claims, "--metrics-detail", "claim")
    print(f"{len(found)} series by claim")
    assert {f"c{number}" for number in range(CLAIMS)} <= {one.get("claim") for one in found}
