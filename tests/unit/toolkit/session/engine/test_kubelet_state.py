"""State files where there is no kubelet: what they are held against is not what made them, and the verdict says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.lab.harness.catalogue import dealt, machine, scenarios
from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.model.state_files import StateReading
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.engine.kubelet_state import state_reading
from toolkit.session.planning.from_plan import stages
from toolkit.session.planning.planned import Planned, plan_all
from validators.rules import checkpoint

PLACES = {name: place for place, names in dealt().items() for name in names}
MEMORY = "memory_manager_state"


def planned(name: str) -> Planned:
    return plan_all(scenarios()[name], machine(PLACES[name]))


def read(work: Planned) -> StateReading:
    return state_reading(work, stages(work.plan, work.before)[-1])


def judged(reading: StateReading, subject: str) -> Verdict:
    found = checkpoint.RULE(claim_set(reserved_cpus=reading.cpus_online), evidence(state_files=(reading,)))
    return next(verdict for verdict in found if verdict.subject == subject)


def test_the_machine_and_the_settings_are_stated() -> None:
    """The memory manager's policy and each node's memory, as the scenario and the machine have them."""
    work = planned("memory-app")
    reading = read(work)

    assert (reading.cpu_policy, reading.memory_policy) == ("static", "Static")
    assert reading.node_bytes == {node.id: node.memory for node in work.topology.kubelet.nodes}
    assert judged(reading, MEMORY).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"memory_policy": "None"}, "policy is Static, configured is None"),
        ({"node_bytes": {0: 1}}, "the kubelet will not start again"),
        ({"memory": None}, "the policy is Static, and the file was not read"),
    ],
)
def test_the_memory_file_can_fail(wrong: dict[str, Any], words: str) -> None:
    """Another policy, another machine, no file: each is noticed."""
    verdict = judged(replace(read(planned("memory-app")), **wrong), MEMORY)

    assert verdict.outcome in (Outcome.FAILED, Outcome.UNDECIDED)
    assert words in verdict.reason


def test_a_plan_that_was_made_with_other_settings_fails() -> None:
    """The policy that the files are held against is the scenario's, not the one in the plan."""
    work = planned("memory-app")
    other = replace(work.scenario, kubelet={**work.scenario.kubelet, "memoryManagerPolicy": "None"})

    assert judged(read(replace(work, scenario=other)), MEMORY).outcome is Outcome.FAILED


def test_a_kubelet_that_was_started_anew_has_its_own_settings() -> None:
    """Of one that does not start the files are those of the kubelet before."""
    work = planned("kubelet-restart")
    assert work.restarted is not None
    again = replace(work, scenario=replace(work.scenario, kubelet_restart={"memoryManagerPolicy": "Static"}))

    assert read(again).memory_policy == "Static"
    refused = replace(again, restarted=replace(work.restarted, refusal="no"))
    assert read(refused).memory_policy == "None"


def test_the_writer_of_the_file_is_said() -> None:
    """A model's file is not taken for a node's; of a node's it is said what wrote it, or why that is not known."""
    reading = read(planned("memory-app"))
    for subject in (MEMORY, "cpu_manager_state"):
        reason = judged(reading, subject).reason
        assert reason.startswith("as pinproof's model writes it, no kubelet is here: ")
        of_node = judged(replace(reading, modelled=False), subject)
        said = f"; which task wrote {subject} is not known: no witness saw that"
        wrong = said if of_node.outcome is Outcome.FAILED else ""
        assert of_node.reason == reason.partition("here: ")[2] + wrong
