"""Whether a kubelet looks at a pod's own resources (its budget) at all.

The CPU and Memory Manager are no part of this: they leave a pod with a budget alone unless both gates are on, whatever
its containers ask for. Source: Kubernetes "Feature Gates", ``PodLevelResources`` (KEP-2837); kubernetes v1.36
``cpumanager/policy_static.go``, ``memorymanager/policy_static.go`` (``Allocate``).
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.kubernetes.feature_gates import POD_LEVEL_RESOURCES, FeatureGates
from toolkit.kubernetes.pod import Pod


def as_seen(pod: Pod, gates: FeatureGates) -> Pod:
    """Return the pod as a kubelet with these gates sees it: with the gate off by its containers alone, in QoS class,
    room and cgroup values.
    """
    return pod if pod.resources is None or gates[POD_LEVEL_RESOURCES] else replace(pod, resources=None)
