"""A capture without the kubelet's list of pods: whether a pod has ended is what its sandbox says."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.sources.edited import capture, document, failed, judged, part
from toolkit.allocation.checkpoint.cpu import write_cpu_checkpoint
from toolkit.allocation.cpu.state import CpuState
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NamedText, NodeReading
from toolkit.model.verdict import Outcome
from toolkit.sources.kubelet.evidence import evidence_of
from toolkit.sources.kubelet.files.allow_list import POD_UID
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import from_cri
from validators.rules import checkpoint

LABELS = {POD_UID: "u-db", "io.kubernetes.pod.name": "db", "io.kubernetes.container.name": "main"}
CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
"""
READY: dict[str, object] = {"id": "bb", "labels": LABELS}
OVER = READY | {"id": "cc", "state": "SANDBOX_NOTREADY"}


@pytest.mark.parametrize(
    ("sandboxes", "state", "outcome"),
    [
        ([OVER], "EXITED", Outcome.UNDECIDED),
        ([READY], "EXITED", Outcome.PASSED),
        ([OVER, READY], "EXITED", Outcome.PASSED),
        ([OVER], "RUNNING", Outcome.PASSED),
        ([], "EXITED", Outcome.PASSED),
    ],
    ids=["a job that is done", "a container that waits", "a pod in its next sandbox", "no word of it", "not listed"],
)
def test_what_a_pod_has_that_ended_is_a_leak_or_not_reconciled(
    sandboxes: list[dict[str, object]], state: str, outcome: Outcome
) -> None:
    """One moment does not say which. A pod of which any sandbox is ready owns what it has."""
    container = {"id": "aa", "labels": LABELS, "state": f"CONTAINER_{state}"}
    entries = {"u-db": {"main": CpuSet.parse("2-3")}}
    reading = NodeReading(
        config=(NamedText(name="config.yaml", text=CONFIG),),
        cpu_state=write_cpu_checkpoint(
            CpuState(policy_name="static", default=CpuSet.parse("0-1"), entries=entries), pod_level=False
        ),
        containers=from_cri({"containers": {"containers": [container]}, "sandboxes": {"items": sandboxes}}),
        online="0-3",
    )
    verdicts = checkpoint.RULE.check(*evidence_of(reading, node_claims(reading)))

    assert {verdict.subject: verdict.outcome for verdict in verdicts}["cpu_manager_state"] is outcome


def test_a_kubelet_that_lists_no_pod_has_just_started() -> None:
    """It has let go of none: CPUs of others that a shared container still has are a reconcile's."""
    files = capture("D-3")
    with part(files, "pods.json") as pods:
        pods["items"] = []
    assert failed(files) == {}
    assert judged(files)["layers-agree", "be-node1/main"].outcome is Outcome.UNDECIDED
    assert judged(files)["checkpoint", "cpu_manager_state"].outcome is Outcome.PASSED
    assert any(row["reason"].startswith("the kubelet lists none") for row in document(files)["missing"])
