"""What no kernel takes is refused before anything is made, with the container, the value and the most that there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.scenario_builder import machine, pod, scenario
from toolkit.errors import InputError
from toolkit.session.engine import execute
from toolkit.session.engine.execute import Settings
from toolkit.session.planning.kernel_bounds import check_bounds
from toolkit.session.planning.planned import Planned, plan_all


def planned(cpu: str, **more: Any) -> Planned:
    limits = {"limits": {"cpu": cpu, **more}, "requests": {"cpu": "1m"}}
    return plan_all(scenario(pod("web", {"name": "app", "resources": limits})), machine(4))


@pytest.mark.parametrize("cpu", ["175921860", "1", "500m"])
def test_what_a_kernel_takes(cpu: str) -> None:
    """Up to its own bound; memory and huge pages beyond its counter are no limit to it."""
    check_bounds(planned(cpu, memory="8Ei"), "s.yaml")


@pytest.mark.parametrize("cpu", ["175921861", "1e15", "9223372036854775807", "9e18"])
def test_a_quota_that_none_takes(cpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where a run begins without the command line; nothing has been made by then."""
    work = planned(cpu)
    words = r"web/app: a CPU limit of \d+ CPUs \(a quota of \d+ us\); expected at most 175921860: the kernel takes"
    with pytest.raises(InputError, match=f"^s.yaml: {words}"):
        check_bounds(work, "s.yaml")

    monkeypatch.setattr(execute.apply, "sandbox", lambda *_args, **_more: pytest.fail("something was made"))
    with pytest.raises(InputError, match=f"^s: {words}"):
        execute.run_scenario(work, Settings(runs=tmp_path))


def test_a_resize_counts() -> None:
    """Whatever a plan leads to is looked at before the first of it is made."""
    work = planned("1")
    with pytest.raises(InputError, match="a CPU limit of"):
        check_bounds(replace(work, resized=planned("1e15").plan), "s.yaml")
