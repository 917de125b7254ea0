"""Work of the node that begins while scenarios are run: no more are started, and what was judged stays."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.scenario_builder import machine
from tests.unit.validators.evidence_builder import evidence
from toolkit.cli import conformance as verb
from toolkit.cli import run as run_verb
from toolkit.model.conformance import ScenarioResult
from toolkit.model.cpuset import CpuSet
from toolkit.model.result import make_result
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology
from toolkit.model.verdict import Outcome
from toolkit.session import conformance
from toolkit.session.planning import guard
from toolkit.session.planning.guard import Occupant
from toolkit.session.planning.planned import Planned

CPUS = 4
POD = Occupant(what="1 pod runs", cpus=CpuSet.parse("2"))


class Node:
    """A machine on which work begins once so many scenarios have been run. The guard is the real one."""

    def __init__(self) -> None:
        self.after, self.ran, self.looked = 1, list[str](), 0
        self.outcome = Outcome.PASSED

    def occupants(self, _root: Path = Path("/")) -> tuple[Occupant, ...]:
        self.looked += 1
        return (POD,) if len(self.ran) >= self.after else ()

    def run_one(self, scenario: Scenario, *_: object) -> ScenarioResult:
        self.ran.append(scenario.name)
        return ScenarioResult(
            name=scenario.name, title="t", catalogue=(), outcome=self.outcome, reason="r", run=f"runs/{scenario.name}"
        )


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """What needs root and a kernel is left out: programs, and the run itself."""
    made = Node()

    @contextlib.contextmanager
    def prepared(_: str) -> Iterator[Any]:
        yield None

    def read_topology(*_: object, **__: object) -> Topology:
        return machine(CPUS)

    monkeypatch.setattr(guard, "occupants", made.occupants)
    monkeypatch.setattr(guard, "read_topology", read_topology)
    monkeypatch.setattr(verb, "require_run", lambda _: None)
    monkeypatch.setattr(verb, "prepared", prepared)
    monkeypatch.setattr(conformance, "run_one", made.run_one)
    monkeypatch.setattr(verb.fitting, "why_not", lambda *_, **__: None)
    return made


NAMES = ("exclusive-and-shared", "quota-shared", "weights")


def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuple(Scenario(name=name, title="t", kubelet={}, pods=()) for name in NAMES)
    monkeypatch.setattr(verb, "load_catalogue", lambda: found)


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.PASSED, 4), (Outcome.UNDECIDED, 4), (Outcome.FAILED, 1)])
def test_conformance_ends_with_what_it_found(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: Outcome, code: int
) -> None:
    """Exit code 4, unless something failed; what was judged is printed, and in the JUnit file, the rest was not run."""
    catalogue(monkeypatch)
    node.outcome = outcome
    ended = pinproof("conformance", "--json", "--junit", tmp_path / "j.xml", "--output", tmp_path)
    assert (ended.exit_code, node.ran) == (code, [NAMES[0]])
    assert "this node is at work by now: 1 pod runs; nothing more was started" in ended.stderr
    rows = {row["name"]: (row["outcome"], row["reason"]) for row in json.loads(ended.stdout)["scenarios"]}
    assert rows[NAMES[0]] == (outcome.value, "r")
    assert all(rows[name][0] == "skipped" and "1 pod runs" in rows[name][1] for name in NAMES[1:])
    assert NAMES[0] in (tmp_path / "j.xml").read_text()


def test_a_machine_that_stays_free_is_looked_at_before_each(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Three scenarios, three looks: one before anything, one before each that follows."""
    catalogue(monkeypatch)
    node.after = 9
    ended = pinproof("conformance", "--output", tmp_path)
    assert (ended.exit_code, node.ran, node.looked) == (0, list(NAMES), len(NAMES))


def test_a_user_who_insists_goes_on_while_the_cpus_have_no_owner(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``--on-live-node``: the pod's CPU was free when the first scenario ran, so it is loaded."""
    catalogue(monkeypatch)
    ended = pinproof("conformance", "--on-live-node", "--output", tmp_path)
    assert (ended.exit_code, node.ran) == (4, [NAMES[0]])
    assert "CPUs 2 have an owner by now: 1 pod runs" in ended.stderr
    node.ran.clear()
    monkeypatch.setattr(guard, "occupants", lambda *_: (Occupant(what="idle", cpus=CpuSet.parse("9")),))
    assert pinproof("conformance", "--on-live-node", "--output", tmp_path).exit_code == 0
    assert node.ran == list(NAMES)


class Done:
    """A run that is over."""

    outcome = Outcome.PASSED
    error = None

    def __init__(self, work: Planned) -> None:
        self.result = make_result(evidence(), (), unknown=None)
        self.name = work.scenario.name

    def save(self) -> None:
        """Note that it was saved."""
        SAVED.append(self.name)


SAVED: list[str] = []


def test_run_looks_again_before_the_next_file(node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first result stays printed and saved; the others are named as not run."""
    files = [tmp_path / f"{name}.yaml" for name in ("one", "two", "three")]
    for file in files:
        file.write_text(
            "apiVersion: pinproof/v1\nkind: Scenario\n"
            f"name: {file.stem}\ntitle: t\nkubelet: {{cpuManagerPolicy: static, reservedSystemCPUs: '0'}}\n"
            "pods: [{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}]\n"
        )

    def ran(work: Planned, *_: object) -> Done:
        node.ran.append(work.scenario.name)
        return Done(work)

    SAVED.clear()
    monkeypatch.setattr(run_verb, "require_run", lambda *_: None)
    monkeypatch.setattr(run_verb, "honest", lambda work, _where: work)
    monkeypatch.setattr(run_verb, "_run", ran)
    ended = pinproof("run", *files, "--json", "--output", tmp_path)
    assert (ended.exit_code, node.ran, SAVED) == (4, ["one"], ["one"])
    assert "two: this node is at work by now: 1 pod runs; nothing more was started; not run: three" in ended.stderr
    assert len(json.loads(ended.stdout)) == 1
