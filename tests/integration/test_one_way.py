"""The way of one scenario through the program: every stage is entered once, in the order of ``docs/principles.md``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner

from toolkit.cli.run import command

pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(os.geteuid() != 0, reason="a run needs root"),
]
PROJECT = Path(__file__).resolve().parents[2]
SCENARIO = PROJECT / "validators/scenarios/quota-050-set.yaml"
WAY = (
    "toolkit/scenario_file.py:parse_scenario",
    "toolkit/session/planning/planned.py:plan_all",
    "toolkit/session/planning/from_plan.py:sandbox_request",
    "toolkit/apply/sandbox.py:sandbox",
    "toolkit/session/planning/from_plan.py:claim_set",
    "toolkit/session/engine/observe.py:open",
    "toolkit/session/engine/acts.py:watch",
    "toolkit/session/engine/observe.py:close",
    "probes/build.py:build",
    "toolkit/store.py:run_texts",
    "toolkit/store.py:parse_run",
    "validators/registry.py:judge_and_ask",
    "toolkit/store.py:with_result",
    "toolkit/report/table.py:render_table",
    "toolkit/store.py:write_run",
)
"""Where each stage begins. The evidence of the canaries is built beside that of the claims, by the same function."""


@contextmanager
def followed(entered: list[str]) -> Iterator[None]:
    """Write down each time that one of these functions is called by this thread."""
    codes: dict[object, str] = {}
    frames: set[FrameType] = set()

    def call(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code not in codes:
            path = Path(code.co_filename)
            inside = path.is_relative_to(PROJECT)
            codes[code] = f"{path.relative_to(PROJECT)}:{code.co_name}" if inside else ""
        if codes[code] in WAY and frame not in frames:  # what is left and resumed (a context manager) is called again
            frames.add(frame)
            entered.append(codes[code])

    sys.setprofile(call)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_every_stage_is_entered_once_and_in_order(tmp_path: Path) -> None:
    """From the scenario's file to the saved run; nothing is judged, printed or saved twice, nothing patched between."""
    entered: list[str] = []
    with followed(entered):
        done = CliRunner().invoke(command, [str(SCENARIO), "--duration", "1", "--output", str(tmp_path)])

    assert done.exit_code in (0, 3), done.output  # a busy machine may leave something undecided
    assert [one for number, one in enumerate(entered) if entered[number - 1 : number] != [one]] == list(WAY)
