"""Which kubelet runs, as far as what is there shows it where nothing says it, and what depends on that.

A kubelet whose process is not seen (pinproof in a pod, or a node's files below ``--root``) cannot be asked. What it has
written shows how old it is at least; what older ones do otherwise is then promised neither way.

Source: :mod:`toolkit.kubernetes.releases`.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.allocation.cgroup_values import CpuValues, pod_values
from toolkit.errors import InputError
from toolkit.kubernetes.feature_gates import POD_LEVEL_RESOURCES, FeatureGates
from toolkit.kubernetes.kubelet_version import SERIES, series_of
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.releases import (
    ALLOCATED_STATE,
    API_REPORTS_POOL,
    INIT_CONTAINERS_COUNT,
    OWNERS_WITHOUT_QUOTA,
    POD_BUDGETS,
    Behaviour,
    Series,
    least,
)
from toolkit.model.layers import ApiCpus
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.allocated import actuated, allocations


class Versions:
    """Of one node. :param given: the gates that the configuration sets."""

    def __init__(self, reading: NodeReading, given: FeatureGates) -> None:
        self.said = _said(reading)
        self._given = given.given
        self._why = bool(reading.kubelet_version) or any(part.part == "version" for part in reading.missing)
        self._least = least(self._given, reading.metrics or "")
        self._allocated = {**allocations(reading), **actuated(reading)}

    def has(self, behaviour: Behaviour, uid: str) -> bool | None:
        """Return whether the kubelet does that; ``None``: nothing could ask it, and nothing shows how old it is.

        :param uid: of a pod that it runs.
        """
        if self.said is not None:
            return behaviour.of(self.said)
        written = ALLOCATED_STATE.since if uid in self._allocated else None
        return behaviour.at_least(max(self._least, written or (0, 0)))

    def unknown(self, behaviour: Behaviour, uid: str) -> bool:
        """Whether a kubelet that nothing could ask may do that or not."""
        return self.said is None and self.has(behaviour, uid) is None

    def api_cpus(self, uid: str) -> ApiCpus:
        """Return how its pod-resources API means the CPUs of a container. :param uid: of its pod."""
        pool = self.has(API_REPORTS_POOL, uid)
        return ApiCpus.EITHER if pool is None else ApiCpus.POOL if pool else ApiCpus.OWN

    def unsaid(self, uids: Iterable[str]) -> str:
        """Say that the version is not known where that matters; empty: it is known, or it is said why it is not.

        :param uids: of pods that own CPUs.
        """
        if self._why or not any(self.unknown(OWNERS_WITHOUT_QUOTA, uid) for uid in uids):
            return ""
        return "no part of the capture says which version the kubelet has"

    def may_ignore_budget(self, uid: str) -> bool:
        """Whether it may not look at a pod's own resources."""
        written = self._allocated.get(uid, {}).get("PodLevelResources")
        return POD_LEVEL_RESOURCES not in self._given and not written and self.unknown(POD_BUDGETS, uid)

    def pod_values(self, uid: str, pod: Pod, config: NodeConfig, *, quota_disabled: bool) -> tuple[CpuValues, ...]:
        """Return what may be the values of a pod's cgroup."""
        counts = self.has(INIT_CONTAINERS_COUNT, uid)
        ways = (True, False) if counts is None else (counts,)
        return tuple(pod_values(pod, config, quota_disabled=quota_disabled, init_counts=way) for way in ways)


def _said(reading: NodeReading) -> Series | None:
    """Return the version as it was said; what is built from no release calls itself v0.0.0, and is taken for new."""
    version = reading.kubelet_version
    if not version:
        return None
    try:
        found = series_of(version, "kubelet_version")
    except InputError:
        return None
    return found if found[0] else SERIES
