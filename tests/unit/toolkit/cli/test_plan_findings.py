"""Findings of ``pinproof plan``: CPUs handed out twice and half cores on a machine with offline siblings."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.host.machine_archives import unpack
from tests.unit.toolkit.host.sysroots import write

TELCO = Path(__file__).resolve().parents[3] / "data" / "topologies" / "syn-icx6338n-2s-telco.tar.xz"
CONFIG = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0"
topologyManagerPolicy: best-effort
topologyManagerScope: pod
featureGates: {PodLevelResourceManagers: true}
"""
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: budget}
spec:
  resources: {requests: {cpu: "5", memory: 1Gi}, limits: {cpu: "5", memory: 1Gi}}
  containers:
    - {name: main, resources: {limits: {cpu: "3", memory: 64Mi}}}
    - {name: side}
---
apiVersion: v1
kind: Pod
metadata: {name: own}
spec: {containers: [{name: main, resources: {limits: {cpu: "6", memory: 64Mi}}}]}
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """128 CPUs, three of them offline: a synthetic machine of this repository."""
    root = tmp_path_factory.mktemp("telco")
    with tarfile.open(TELCO) as archive:
        unpack(archive, root)
    return root


def found(machine: Path, folder: Path, config: str) -> dict[str, list[dict[str, Any]]]:
    """Plan the pods, and return the findings by id."""
    write(folder, {"kubelet.yaml": config, "pods.yaml": PODS})
    files = ("--kubelet-config", folder / "kubelet.yaml", "--pods", folder / "pods.yaml")
    ended = pinproof("plan", *files, "--topology", machine, "--json")
    assert ended.exit_code == 0, ended.stderr
    by_id: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(ended.stdout)[0].get("findings", []):
        by_id.setdefault(finding["id"], []).append(finding)
    return by_id


def test_a_machine_with_offline_siblings_breaks_promises_by_name(machine: Path, tmp_path: Path) -> None:
    """One CPU comes to two pods, a container leaves its pod's CPUs, whole cores are not whole: the kubelet does it."""
    findings = found(machine, tmp_path, CONFIG)
    assert [f["path"] for f in findings["cpu-outside-its-pod"]] == ["budget/main"]
    assert [f["path"] for f in findings["cpu-with-two-owners"]] == ["own"]
    assert "belong to pod budget" in findings["cpu-with-two-owners"][0]["breaks"]
    assert {f["path"] for f in findings["half-core"]} == {"budget", "own/main"}
    assert {f["path"] for f in findings["kubelet-defect"]} >= {"budget/main", "own/main"}


def test_without_the_option_no_whole_core_is_promised(machine: Path, tmp_path: Path) -> None:
    """Half a core is a finding of full-pcpus-only alone; the CPU with two owners stays one."""
    findings = found(machine, tmp_path, CONFIG.replace("full-pcpus-only", "strict-cpu-reservation"))
    assert "half-core" not in findings
    assert "cpu-with-two-owners" in findings


@pytest.mark.parametrize(("value", "side", "other"), [("false", "vanish", "appear"), ("true", "appear", "vanish")])
def test_a_change_shows_which_findings_it_brings(
    machine: Path, tmp_path: Path, value: str, side: str, other: str
) -> None:
    """Half a core comes with full-pcpus-only and goes with it; what stays is not repeated."""
    config = CONFIG if value == "false" else CONFIG.replace('"true"', '"false"')
    write(tmp_path, {"kubelet.yaml": config, "pods.yaml": PODS})
    files = ("--kubelet-config", tmp_path / "kubelet.yaml", "--pods", tmp_path / "pods.yaml", "--topology", machine)
    arguments = ("plan", *files, "--diff", f"full-pcpus-only={value}")

    (document,) = json.loads(pinproof(*arguments, "--json").stdout)
    assert {finding["id"] for finding in document[f"findings_{side}"]} == {"half-core"}
    assert document[f"findings_{other}"] == []
    text = pinproof(*arguments).stdout
    assert f"These findings {side}:" in text
    assert "half-core" in text
    assert f"These findings {other}:" not in text


def test_options_and_reservation_are_findings_of_a_plan(machine: Path, tmp_path: Path) -> None:
    """What `doctor --isolation` finds in a kubelet's options, `plan` finds, too."""
    options = CONFIG + 'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "8"}\n'
    findings = found(machine, tmp_path, options)

    assert findings["reserved-cpus-shared"][0]["value"] == "not set"
    assert findings["reserved-half-core"][0]["value"] == "0"
    assert [one["value"] for one in findings["option-without-effect"]] == ["max-allowable-numa-nodes"]


@pytest.mark.parametrize(("policy", "idle"), [("none", ["align-by-socket"]), ("best-effort", [])])
def test_an_option_of_hints_needs_a_policy_that_asks(
    machine: Path, tmp_path: Path, policy: str, idle: list[str]
) -> None:
    """Two sockets, no topology policy: align-by-socket has nothing to align; with a policy it has."""
    config = CONFIG.replace("full-pcpus-only", "align-by-socket").replace("best-effort", policy)
    config = config.replace("{PodLevel", "{CPUManagerPolicyAlphaOptions: true, PodLevel")

    assert [one["value"] for one in found(machine, tmp_path, config).get("option-without-effect", [])] == idle


def test_isolated_cpus_of_the_machine_are_a_finding_of_the_plan(machine: Path, tmp_path: Path) -> None:
    """What the machine's own files say is held against the CPUs of the plan."""
    assert found(machine, tmp_path, CONFIG)["isolcpus-in-shared-pool"][0]["outcome"] == "failed"
