"""Owners of CPUs whose entry in the state file has another number of CPUs than they ask for.

What was promised is what a container asks for; a state file that was changed by hand answers otherwise.
Source: Kubernetes documentation "Static policy" (as many CPUs as the container's integer limit); KEP-5526.
"""

from __future__ import annotations

from toolkit.allocation.cpu.requests import exclusive_cpus
from toolkit.kubernetes.feature_gates import IN_PLACE_RESIZE_EXCLUSIVE_CPUS, POD_LEVEL_RESOURCES
from toolkit.model.claims import Isolation
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.claims import NodeClaims
from toolkit.sources.kubelet.requests import requested
from toolkit.sources.kubelet.subjects import pod_documents


def miscounted(reading: NodeReading, node: NodeClaims) -> dict[str, int]:
    """Return their claims with the number that they ask for, as far as the kubelet's list of pods says it.

    A pod whose resize is under way may have the one number or the other; with a gate resizes are taken, and the CPU
    manager keeps what it has.
    """
    gates = node.settings.config.feature_gates
    if node.settings.problem or gates[IN_PLACE_RESIZE_EXCLUSIVE_CPUS]:
        return {}
    listed, asked_for = pod_documents(reading), requested(reading, budgets=gates[POD_LEVEL_RESOURCES])
    found = {}
    for promise in node.promises:
        uid, claim = promise.subject.pod_uid, promise.claim
        pod = asked_for.pods.get(uid) if uid in listed and uid not in asked_for.in_force else None
        container = pod.container(promise.subject.container) if pod is not None else None
        if pod is None or container is None or claim is None or not promise.state or not promise.in_state:
            continue
        count = exclusive_cpus(pod, container, pod_level_managers=gates.pod_level_managers)
        if claim.isolation is Isolation.CONTAINER and count and count != len(promise.state):
            found[claim.name] = count
    return found
