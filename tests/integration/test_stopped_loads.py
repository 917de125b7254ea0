"""Signals to verbs that make sandboxes of their own: what was seen is judged, and what was planted is taken back."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.integration.apply_support import traces
from tests.integration.lost_support import PINPROOF, Begun, begin, ending, scenario, watching

# Not beside others: several loads that use whole CPUs at once starve what else runs here (docs/facts.md K34).
pytestmark = pytest.mark.integration
DEADLINE_S = 180
"""For what was stopped to end, on a machine however loaded: never reached otherwise."""


@dataclass(frozen=True)
class Loads:
    """What makes sandboxes of its own for ten minutes, begun together, each in a directory of its own."""

    run: Begun
    conformance: Begun
    inject: Begun


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loads]:
    """All of them observe."""

    def load(*arguments: object) -> Begun:
        return begin(tmp_path_factory.mktemp("load"), *arguments, "--json")

    files = [scenario(tmp_path_factory.mktemp("scenarios"), name, "spin", 600) for name in ("one", "two")]
    chosen = ("--select", "quota-050-over", "--select", "quota-010-over")
    begun = Loads(
        load("run", *files, "--output", "runs"),
        load("conformance", *chosen, "--duration", "600", "--output", "runs"),
        load("inject", "cpuset-write", "--duration", "600"),  # where it saves is its own default
    )
    every = (begun.run, begun.conformance, begun.inject)
    with ending(every):
        for one in every:
            watching(one.process)
        yield begun


def test_a_stopped_run_is_judged(loads: Loads) -> None:
    """The window that is open closes and is judged; what is not run any more is said."""
    done = loads.run.process
    done.send_signal(signal.SIGHUP)
    out, err = done.communicate(timeout=DEADLINE_S)

    (result,) = json.loads(out)
    assert done.returncode == (1 if result["outcome"] == "failed" else 129), err
    assert err == "pinproof: stopped by SIGHUP; not run: two\n"
    assert len(loads.run.runs) == 1


def test_a_stopped_conformance_session_keeps_what_it_has(loads: Loads) -> None:
    """No scenario that was cut short has passed, and no rule is blamed for a fault that had no time to show."""
    done = loads.conformance.process
    done.send_signal(signal.SIGTERM)
    out, err = done.communicate(timeout=DEADLINE_S)

    session = json.loads(out)
    assert [found["outcome"] for found in session["scenarios"]] == ["undecided", "skipped"], err
    assert "SIGTERM" in session["scenarios"][0]["reason"]
    assert done.returncode == 143
    assert err == "pinproof: stopped by SIGTERM\n"


def test_a_stopped_injection_is_judged(loads: Loads) -> None:
    """The fault is taken back, whether it was reported is said, and the run can be judged again."""
    done = loads.inject.process
    done.send_signal(signal.SIGHUP)
    out, err = done.communicate(timeout=DEADLINE_S)

    assert json.loads(out)["verdicts"]
    assert done.returncode == (129 if json.loads(out)["missed"] else 0), err
    (run,) = loads.inject.runs
    again = subprocess.run([*PINPROOF, "judge", run, "--json"], capture_output=True, text=True, check=False)
    assert json.loads(again.stdout)["verdicts"] == json.loads(out)["verdicts"]
    assert "-inject-" in run.name
    assert traces(run.name) == []
