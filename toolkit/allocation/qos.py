"""Which containers have exclusive CPUs, and therefore lose their CFS quota.

Source: Kubernetes documentation "Static policy" (CFS quota is not used for containers with exclusive CPUs); KEP-5526
"ResourceIsolationLevel"; ``docs/simulate-format.md`` on ``pod_quota_disabled``.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.kubernetes.feature_gates import NO_QUOTA_WITH_EXCLUSIVE_CPUS, FeatureGates
from toolkit.kubernetes.pod import Pod
from toolkit.model.claims import Isolation


def container_quota_disabled(isolation: Isolation, gates: FeatureGates) -> bool:
    """Whether a container runs without a CFS quota: its CPUs are its own."""
    return gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS] and isolation is Isolation.CONTAINER


def pod_quota_disabled(pod: Pod, isolations: Iterable[Isolation], gates: FeatureGates) -> bool:
    """Whether the pod's cgroup has no CFS quota.

    One exclusive container is enough, because the pod's quota would throttle it too; a pod-level pod keeps its quota
    as long as any of its containers shares, because the others could eat up the shared ones' part.
    """
    if not gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS]:
        return False
    exclusive = [isolation is Isolation.CONTAINER for isolation in isolations]
    return all(exclusive) if pod.pod_level and gates.pod_level_managers else any(exclusive)
