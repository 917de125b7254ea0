"""Which kubelet runs, as far as what is there shows it where nobody says it, and what depends on that.

A kubelet whose process is not seen (pinproof in a pod, or a node's files below ``--root``) cannot be asked. What it has
written shows how old it is at least; what older ones do otherwise is then promised neither way.

Source: Kubernetes documentation "Feature Gates"; kubernetes ``pkg/kubelet/allocation`` (``allocated_pods_state`` since
v1.33), ``pkg/kubelet/cm/helpers_linux.go`` (``ResourceConfigForPod``: init containers count since v1.27).
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.allocation.cgroup_values import CpuValues, pod_values
from toolkit.errors import InputError
from toolkit.model.feature_gates import (
    IN_PLACE_RESIZE_POD_LEVEL,
    NODE_DECLARED_FEATURES,
    POD_LEVEL_RESOURCE_MANAGERS,
    POD_LEVEL_RESOURCES,
    FeatureGates,
)
from toolkit.model.kubelet_version import SERIES, series_of
from toolkit.model.node_config import NodeConfig
from toolkit.model.node_reading import NodeReading
from toolkit.model.pod import Pod
from toolkit.sources.kubelet.allocated import actuated, allocations

Series = tuple[int, int]
NEW_GATES = {POD_LEVEL_RESOURCE_MANAGERS: (1, 36), IN_PLACE_RESIZE_POD_LEVEL: (1, 35), NODE_DECLARED_FEATURES: (1, 35)}
"""Gates that no kubelet before that series takes: it would not have started."""
NEW_METRICS = {"kubelet_cpu_manager_allocation_per_numa{": (1, 33)}
"""Samples that no kubelet before that series has. Source: kubernetes pull request 130491."""
ALLOCATES: Series = (1, 33)
BUDGETS: Series = (1, 34)
APPS_ALONE: Series = (1, 25)
"""Up to there an init container without a limit does not leave its pod without one."""
ALL_COUNT: Series = (1, 29)
"""From there on it does. In which series in between that came is not relied on."""


class Versions:
    """Of one node. :param given: the gates that the configuration sets."""

    def __init__(self, reading: NodeReading, given: FeatureGates) -> None:
        self.said = _said(reading)
        self._given = given.given
        self._why = bool(reading.kubelet_version) or any(part.part == "version" for part in reading.missing)
        shown = [NEW_GATES[name] for name in self._given if name in NEW_GATES]
        shown += [since for name, since in NEW_METRICS.items() if f"\n{name}" in f"\n{reading.metrics or ''}"]
        self._least = max(shown, default=(0, 0))
        self._allocated = {**allocations(reading), **actuated(reading)}

    def may_be_before(self, series: Series, uid: str) -> bool:
        """Whether a kubelet which nobody asked may be older than that. :param uid: of a pod that it runs."""
        if self.said is not None:
            return False
        return max(self._least, ALLOCATES if uid in self._allocated else (0, 0)) < series

    def unsaid(self, uids: Iterable[str]) -> str:
        """Say that the version is not known where that matters; empty: it is known, or it is said why it is not.

        :param uids: of pods that own CPUs.
        """
        if self._why or not any(self.may_be_before(ALLOCATES, uid) for uid in uids):
            return ""
        return "no part of the capture says which version the kubelet has"

    def may_ignore_budget(self, uid: str) -> bool:
        """Whether it may not look at a pod's own resources."""
        written = self._allocated.get(uid, {}).get("PodLevelResources")
        return POD_LEVEL_RESOURCES not in self._given and not written and self.may_be_before(BUDGETS, uid)

    def pod_values(self, uid: str, pod: Pod, config: NodeConfig, *, quota_disabled: bool) -> tuple[CpuValues, ...]:
        """Return what may be the values of a pod's cgroup."""
        said = self.said
        both = self.may_be_before(ALL_COUNT, uid) if said is None else APPS_ALONE < said < ALL_COUNT
        ways = (True, False) if both else (said is None or said >= ALL_COUNT,)
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
