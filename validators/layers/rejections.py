"""Pods that the kubelet refused for a reason that its documentation does not give: layer by layer nothing is wrong, but
what looks for the cause is led astray.

Where the Topology Manager's policy is ``restricted`` or ``single-numa-node``, a pod whose CPUs or memory cannot be
aligned is documented to be refused with ``TopologyAffinityError``.
Source: Kubernetes documentation "Control Topology Management Policies on a node", known error reasons; docs/facts.md
K-kubelet-10.
"""

from __future__ import annotations

import re

from toolkit.model.evidence import Evidence
from toolkit.model.picture import RejectedPod
from toolkit.model.verdict import Outcome, Verdict

DOCUMENTED, MISLEADING = "TopologyAffinityError", "UnexpectedAdmissionError"
REFUSING = ("restricted", "single-numa-node")
_AFFINITY = re.compile(r"\[(?:memory|cpu)manager\]|NUMA|topology hint|not enough cpus", re.IGNORECASE)
"""What a message blames that is CPU or memory affinity; devices and preemption are other matters."""


def check(rule: str, evidence: Evidence) -> list[Verdict]:
    """Judge the reasons of pods that were refused."""
    still = evidence.picture
    if still is None or still.topology_policy not in REFUSING:
        return []
    return [
        Verdict(
            rule=rule, subject=pod.pod, outcome=Outcome.FAILED, reason=_text(pod, still.topology_policy), measures={}
        )
        for pod in still.rejected
        if pod.reason == MISLEADING and _AFFINITY.search(pod.message)
    ]


def _text(pod: RejectedPod, policy: str) -> str:
    return (
        f"its status and the documentation differ: refused with {pod.reason} under policy {policy}, documented is "
        f"{DOCUMENTED}: {pod.message}"
    )
