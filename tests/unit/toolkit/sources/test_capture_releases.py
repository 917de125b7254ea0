"""Captures of kubelets of other releases: what pod-resources says of containers that own no CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.toolkit.cli.command_line import pinproof
from tests.unit.toolkit.sources.edited import Files, capture, judged, part

BE = "layers-agree", "be-node1/main"
G1 = "layers-agree", "g1-node1/main"


def of_version(version: str, pool: str = "0") -> Files:
    """Return a healthy node whose pod-resources gives its shared container these CPUs; no version: it is not known."""
    files = capture("A-3")
    # The gauges of before their time would show how old the kubelet is at least.
    del files["metrics_managers.txt"]
    if version:
        files["capture.json"] = json.dumps({"schema": "pinproof.capture/1", "kubelet_version": version}).encode()
    if pool:
        with part(files, "podresources.json") as answers:
            (shared,) = (pod for pod in answers["List"]["podResources"] if pod["name"] == "be-node1")
            shared["containers"][0]["cpuIds"] = [pool]
    return files


@pytest.mark.parametrize(
    ("version", "pool", "outcome", "words"),
    [
        ("v1.20.2", "0", "passed", "pod-resources"),
        ("v1.22.17", "0", "passed", "pod-resources"),
        ("v1.22.17", "1", "undecided", "CPUs 0 against 1"),
        ("v1.23.0", "0", "failed", "CPUs 0 are the shared pool, and reported as its own"),
        ("v1.36.2", "0", "failed", "CPUs 0 are the shared pool, and reported as its own"),
        ("v1.38.0", "0", "failed", "CPUs 0 are the shared pool, and reported as its own"),
        ("", "0", "undecided", "as kubelets before v1.23 do for a container that owns no CPU"),
        ("v1.20.2", "", "passed", "agree"),
        ("", "", "passed", "agree"),
    ],
)
def test_the_shared_pool_in_pod_resources(version: str, pool: str, outcome: str, words: str) -> None:
    """Kubelets before v1.23 report it for what owns nothing (F53); later ones must not; an owner's CPUs are its own."""
    verdicts = judged(of_version(version, pool))

    assert (verdicts[BE].outcome, words in verdicts[BE].reason) == (outcome, True), verdicts[BE].reason
    assert verdicts[G1].outcome == "passed"


@pytest.mark.parametrize(
    ("version", "said", "quota"),
    [
        ("v1.20.2", "the decisions of v1.20.2 may differ", "100000/100000"),
        ("v1.32.5", "the decisions of v1.32.5 may differ", "100000/100000"),
        ("v1.35.1", "the decisions of v1.35.1 may differ", "none"),
        ("v1.36.2", "whose recorded answers it reproduces", "none"),
        ("v1.37.0", "the decisions of v1.37.0 may differ", "none"),
        ("v1.38.0", "v1.38.0 is newer than what is known here, and is answered as v1.37", "none"),
        ("nonsense", "The kubelet's version is not known", "none"),
        ("", "The kubelet's version is not known", "none"),
    ],
)
def test_a_plan_knows_which_kubelet_the_capture_is_of(tmp_path: Path, version: str, said: str, quota: str) -> None:
    """By ``capture.json``; an owner keeps its quota before v1.33."""
    for name, data in of_version(version, "").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)

    ended = pinproof("plan", "--capture", tmp_path)

    assert ended.exit_code == 0, ended.stderr
    assert said in " ".join(ended.stdout.split())
    (row,) = (line for line in ended.stdout.splitlines() if line.startswith("g1-node1  main"))
    assert quota in row.split()
    (document,) = json.loads(pinproof("plan", "--capture", tmp_path, "--json").stdout)
    assert document["kubelet"]["version"] == (None if version in ("", "nonsense") else version)
    assert said in document["kubelet"]["answered"]


def test_a_mistyped_field_of_a_captured_kubelet_is_said(tmp_path: Path) -> None:
    """``claims --capture`` names it, and what was meant; the claims are those of a kubelet that goes on without it."""
    files = of_version("v1.20.2", "")
    files["kubelet/config.yaml"] += b"reservedCpus: 0-1\nmemoryReservationPolicy: None\n"
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)

    ended = pinproof("claims", "--capture", tmp_path)

    assert ended.exit_code == 0
    assert "reservedCpus is no field of KubeletConfiguration" in ended.stderr
    assert "(did you mean reservedSystemCPUs?): what was meant by it is not in force" in ended.stderr
    assert "memoryReservationPolicy is a field since v1.36: kubelet v1.20 goes on without it" in ended.stderr
