"""A scenario's pods must find room on the machine, as on a node: ``plan`` and ``run`` refuse as the kubelet does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.host.sysroots import CPU, NODE, cpu, node, write
from tests.unit.toolkit.scenario_builder import machine
from toolkit.cli import run as run_verb

SCENARIO = """\
apiVersion: pinproof/v1
kind: Scenario
name: full
title: One of two CPUs is reserved, the other is owned, and a pod asks for more
kubelet: {cpuManagerPolicy: static, reservedSystemCPUs: "0"}
pods:
  - apiVersion: v1
    kind: Pod
    metadata: {name: db}
    spec: {containers: [{name: main, resources: {limits: {cpu: "1", memory: 64Mi}}}]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec: {containers: [{name: app, resources: {requests: {cpu: 100m}}}]}
"""
WHY = "Node didn't have enough resource: cpu, requested: 100, used: 1000, capacity: 1000"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A scenario that asks for more than two CPUs have room for."""
    (tmp_path / "full.yaml").write_text(SCENARIO)
    return tmp_path / "full.yaml"


def test_plan_refuses_a_pod_that_finds_no_room_and_says_why(full: Path, tmp_path: Path) -> None:
    """In the kubelet's words; on a machine with a CPU more the same pod is admitted."""
    answers = {}
    for count in (2, 3):
        root = tmp_path / str(count)
        write(root, {f"{CPU}/online": f"0-{count - 1}", f"{NODE}/online": "0"})
        for number in range(count):
            write(root, cpu(number, core=number))
        node(root, 0, tuple(range(count)), mem_kb=4 << 20)
        done = pinproof("plan", full, "--topology", root, "--json")
        assert done.exit_code == 0, done.stderr
        (found,) = json.loads(done.stdout)
        answers[count] = [(pod["name"], pod["reason"], pod["message"]) for pod in found["plan"]["pods"]]
        text = pinproof("plan", full, "--topology", root).stdout
        assert ("refused by the kubelet's predicate" in " ".join(text.split())) is (count == 2)

    assert answers[2] == [("db", "", ""), ("web", "OutOfcpu", WHY)]
    assert answers[3] == [("db", "", ""), ("web", "", "")]


def test_run_starts_nothing_that_a_kubelet_would_not(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the kubelet's reason, exit code 2, before anything is changed."""
    monkeypatch.setattr(run_verb, "free_machine", lambda *, insisted: machine(2))
    ended = pinproof("run", full)

    stated = "expected the admissions that the scenario states"
    line = f"pinproof: {full}: pod web was refused: OutOfcpu: {WHY}; {stated}\n"
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", line)
