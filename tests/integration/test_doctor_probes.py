"""``doctor`` asks the kernel for the probes themselves: what they are made of may be there, and one be refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from probes import unit
from probes.builder import Request
from probes.composition import build_request
from probes.options import ObserveOptions
from toolkit.cli.main import cli
from toolkit.session.engine import probe_capability

pytestmark = [pytest.mark.integration, pytest.mark.beside]


def told(code: int) -> dict[str, Any]:
    """Return the row of the probes, of a report that ends with this code."""
    done = CliRunner().invoke(cli, ["doctor", "--json"])
    assert done.exit_code == code, done.output
    report = json.loads(done.stdout)
    (row,) = [fact for fact in report["capabilities"] if fact["name"] == probe_capability.NAME]
    lacking = {verb for verb, missing in report["verbs"].items() if probe_capability.NAME in missing}
    return row | {"lacking": lacking}


def test_the_kernel_takes_the_programs() -> None:
    """Loaded and let go: how many, and nothing is missing."""
    row = told(0)
    assert row["available"]
    assert row["detail"].startswith("tried, works: ")
    assert row["lacking"] == set()


def test_a_program_that_the_verifier_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It reads a task's id from where no task has one: the kernel names the program, and no verb that observes works.

    Compiled anew, and nothing is kept for the next start.
    """
    kept = tmp_path / "cache"

    def elsewhere(root: Path, options: ObserveOptions) -> Request:
        request = build_request(root, options)
        return replace(request, settings=request.settings | {"OFF_TASK_STRUCT_PID": 32_000})

    monkeypatch.setattr(probe_capability, "build_request", elsewhere)
    monkeypatch.setattr(unit, "CACHE", kept)
    row = told(4)
    assert not row["available"]
    assert "refuses the program on_switch" in row["detail"]
    assert re.search(r"compiled by bcc [0-9.]+ with LLVM [0-9.]+ for Linux ", row["detail"])
    assert {"run", "watch", "conformance"} <= row["lacking"]
    assert not {"plan", "judge", "doctor"} & row["lacking"]
    assert not kept.exists()
