"""The conformance catalogue in guests: every scenario on a machine that it fits, with every promise broken on purpose.

Each scenario runs on the cheapest of the lab's machines (``harness/catalogue.py``), a few run on every machine, every
kernel and both arrangements of cgroups. A guest runs all of its scenarios in one process, so that the probes are
compiled once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.lab.harness import catalogue, limits
from tests.lab.harness.catalogue_pairs import PAIRS
from tests.lab.harness.debian import KERNELS
from tests.lab.harness.guest import Guest
from tests.lab.harness.guest_files import PROJECT
from tests.lab.harness.snapshot import CGROUP_WORDS
from tests.lab.harness.topology import BY_NAME
from toolkit.model import serde
from toolkit.model.conformance import ControlResult, ScenarioResult
from toolkit.model.verdict import Outcome
from toolkit.session import conformance
from toolkit.session.planning.planned import plan_all
from validators.placement.groups import VIRTUAL_MACHINE

RUN_TIMEOUT_S = 120
"""For one window with all around it; a busy host makes an emulated machine many times slower."""
COMPILE_TIMEOUT_S = 600
GUEST_TIMEOUT_S = 4 * 3600
ASK, ANSWER = "/run/catalogue-ask", "/run/catalogue-answer"

SERVER = """
import json, os
from pathlib import Path
from toolkit.host.topology import read_topology
from toolkit.model.serde import to_data
from toolkit.session import conformance
from toolkit.session.engine import execute
from toolkit.session.planning import fitting
from toolkit.session.conformance import REPEATS
from toolkit.session.engine.prepared import prepared
from toolkit.scenario_file import load_scenario

# Beside loads that fill the emulated CPUs, what watches would wait for its turn; CPU 0 is emulated the fastest. Three
# times the weight of a sandbox, no more: at -20 a planted escaper that came to CPU 0 never got away from it.
os.nice(-5)
os.sched_setaffinity(0, {0})
ask, answer = (Path(path) for path in ARGS["pipes"])
scenarios = Path(ARGS["scenarios"])
machine = read_topology()
with prepared("lab-catalogue") as kept:
    settings = execute.Settings(
        runs=Path("/tmp/runs"), duration_s=ARGS["duration_s"], brief=True, prepared=kept, repeats=REPEATS
    )
    while name := ask.read_text().strip():
        try:
            scenario = load_scenario(scenarios / f"{name}.yaml")
            reason = fitting.why_not(scenario, machine)
            found = conformance.skipped(scenario, reason) if reason else None
            told = to_data(found or conformance.run_one(scenario, machine, settings))
        except Exception as error:
            told = {"name": name, "error": f"{type(error).__name__}: {error}"}
        answer.write_text(json.dumps(told))
"""
"""Runs the scenarios that it is asked for by name, one after the other, with probes that are compiled once."""


@pytest.fixture(scope="module")
def run(guest: Guest) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Run one scenario of the catalogue in this guest and return what is told of it."""
    guest.sh(f"mkfifo {ASK} {ANSWER}")
    # Each by itself: reading all of them takes an emulated machine ten seconds.
    scenarios = f"{PROJECT}/validators/scenarios"
    arguments = {"pipes": [ASK, ANSWER], "duration_s": catalogue.WINDOW_S, "scenarios": scenarios}
    server = guest.start_python(SERVER, arguments, timeout_s=GUEST_TIMEOUT_S)

    def scenario(name: str) -> dict[str, Any]:
        runs = 1 + catalogue.count_faults(name, guest.topology.name)
        seconds = RUN_TIMEOUT_S * runs + COMPILE_TIMEOUT_S
        asked = guest.start(["sh", "-c", f"echo {name} >{ASK}; cat {ANSWER}"], timeout_s=seconds)
        done = asked.result(beside=server)
        assert done.code == 0, f"nothing was told of {name} within {seconds} s"
        told: dict[str, Any] = json.loads(done.text)
        assert told["name"] == name, "the answer to a question that was given up"
        return told

    yield scenario
    if not server.ended:
        guest.sh(f": >{ASK}")
        server.result().check()


@pytest.mark.parametrize(("guest", "case"), PAIRS, indirect=["guest"], scope="module")
def test_scenario(guest: Guest, case: tuple[str, str], run: Callable[[str], dict[str, Any]]) -> None:
    """The honest run keeps every promise, each broken promise is noticed; what emulation cannot show is skipped."""
    _, name = case
    told = run(name)
    assert "error" not in told, told["error"]
    result = serde.from_data(ScenarioResult, told, f"{guest}: {name}")
    assert result.outcome is not Outcome.SKIPPED, f"computed to fit, but: {result.reason}"

    verdicts = limits.restated(result.verdicts)
    assert [line(v) for v in verdicts if v.outcome in (Outcome.FAILED, Outcome.UNDECIDED)] == []
    assert any(verdict.outcome is Outcome.PASSED for verdict in verdicts)
    controls = [limits.restated_control(control) for control in result.controls]
    assert [told_of(c) for c in controls if c.outcome in (Outcome.FAILED, Outcome.UNDECIDED)] == []
    uncertified = [c for c in controls if limits.CANNOT in c.reason or c.reason.startswith(VIRTUAL_MACHINE)]
    if not any(control.outcome is Outcome.PASSED for control in controls):
        assert uncertified, "no negative control fits the machine that the scenario was dealt to"
        pytest.skip(uncertified[0].reason)


def line(verdict: Any) -> str:
    """A verdict on one line."""
    return f"{verdict.rule} {verdict.subject}: {verdict.outcome.value}: {verdict.reason}"


def told_of(control: ControlResult) -> str:
    """A control on one line."""
    return f"{control.rule} <- {control.fault} {control.subject}: {control.outcome.value}: {control.reason}"


def test_the_whole_catalogue_is_run() -> None:
    """Every scenario is dealt to exactly one machine."""
    dealt = [name for names in catalogue.dealt().values() for name in names]
    assert sorted(dealt) == sorted(catalogue.scenarios())


def test_every_broken_promise_is_run() -> None:
    """Each fault of each scenario fits the machine that the scenario was dealt to."""
    for machine, names in catalogue.dealt().items():
        faults = {name: len(conformance.fault_groups(catalogue.scenarios()[name])) for name in names}
        assert {name: catalogue.count_faults(name, machine) for name in names} == faults


def test_every_fault_changes_something() -> None:
    """No control is dealt to a machine on which what it breaks was never promised."""
    for machine, names in catalogue.dealt().items():
        for name in names:
            work = plan_all(catalogue.scenarios()[name], catalogue.machine(machine))
            idle = [conformance.idle_fault(work, control) for control in work.scenario.negative_controls]
            assert [why for why in idle if why] == [], f"{name} on {machine}"


def test_every_machine_and_kernel_runs_some() -> None:
    """No machine, no kernel and no arrangement of cgroups is left out."""
    found = catalogue.kinds()
    assert {kind.topology.name for kind, _ in found} == set(BY_NAME)
    assert {kind.kernel for kind, _ in found} == set(KERNELS)
    assert {kind.cgroup for kind, _ in found} == set(CGROUP_WORDS)
