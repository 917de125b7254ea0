"""The CPU Manager's state as a value: the shared pool, the owners of CPUs, and what a pod may use again.

What of it goes to the checkpoint file is ``policy_name``, ``default``, ``entries`` and ``pods``; ``reuse`` lives only
as long as the kubelet's process. Every change gives a new value; nothing is changed in place.
Source: Kubernetes documentation "Control CPU Management Policies"; KEP-5526 "State File".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from toolkit.model.cpuset import CpuSet

Entries = Mapping[str, Mapping[str, CpuSet]]
"""Pod uid -> container name -> CPU set."""


class CpuState(NamedTuple):
    """One moment of the CPU Manager.

    :param default: the shared pool; empty before the first start, and always with the ``none`` policy.
    :param entries: containers with CPUs of their own, or of their pod.
    :param pods: pods with a CPU set as a whole (pod-level resource managers).
    :param reuse_pod: the pod that ``reuse`` belongs to: the last one that was allocated.
    :param reuse: CPUs of regular init containers that later containers of this pod may get.
    """

    policy_name: str
    default: CpuSet = CpuSet()
    entries: Entries = MappingProxyType({})
    pods: Mapping[str, CpuSet] = MappingProxyType({})
    reuse_pod: str = ""
    reuse: CpuSet = CpuSet()

    def assigned(self, pod_uid: str, container: str) -> CpuSet | None:
        """Return the container's own entry, ``None`` if it follows the shared pool."""
        entries = self.entries.get(pod_uid)
        return None if entries is None else entries.get(container)

    def cpus_of(self, pod_uid: str, container: str) -> CpuSet:
        """Return the CPU set handed to the runtime; empty: none is handed over."""
        own = self.assigned(pod_uid, container)
        return self.default if own is None else own

    def reusable(self, pod_uid: str) -> CpuSet:
        """Return what the pod may use again."""
        return self.reuse if self.reuse_pod == pod_uid else CpuSet()

    def owned(self, *, but_not: str = "") -> CpuSet:
        """Return all CPUs that belong to some container or pod. :param but_not: uid of a pod to leave out."""
        mask = 0
        for uid, containers in self.entries.items():
            if uid != but_not:
                for cpus in containers.values():
                    mask |= cpus.mask
        for uid, cpus in self.pods.items():
            if uid != but_not:
                mask |= cpus.mask
        return CpuSet(mask)

    def with_entry(self, pod_uid: str, container: str, cpus: CpuSet) -> CpuState:
        """Give a container its CPUs."""
        containers = {**self.entries.get(pod_uid, {}), container: cpus}
        return self._replace(entries={**self.entries, pod_uid: containers})

    def without_entry(self, pod_uid: str, container: str) -> CpuState:
        """Take a container's entry away; a pod without entries disappears."""
        left = {name: cpus for name, cpus in self.entries.get(pod_uid, {}).items() if name != container}
        entries = {uid: containers for uid, containers in self.entries.items() if uid != pod_uid}
        if left:
            entries[pod_uid] = left
        return self._replace(entries=entries)

    def restarted(self) -> CpuState:
        """Return what a new kubelet process finds: the checkpointed part."""
        return self._replace(reuse_pod="", reuse=CpuSet())

    def leaked(self, active: Mapping[str, object] | frozenset[str]) -> CpuSet:
        """Return CPUs held as a whole by pods that are not active."""
        mask = 0
        for uid, cpus in self.pods.items():
            if uid not in active:
                mask |= cpus.mask
        return CpuSet(mask)
