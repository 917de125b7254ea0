"""Which containers own CPUs, and for what a quota can be promised: by the state file and by what the pods ask for.

Source: docs/facts.md K-quota, K-pod, K-kubelet-4; KEP-5526 "ResourceIsolationLevel".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolkit.allocation.cpu.requests import exclusive_cpus
from toolkit.kubernetes.feature_gates import NO_QUOTA_WITH_EXCLUSIVE_CPUS, FeatureGates
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Container, Pod
from toolkit.model.claims import Isolation
from toolkit.model.state_files import CpuStateFile
from toolkit.sources.kubelet.subjects import Subject
from toolkit.text.wording import count


class Owners:
    """:param pods: what is known of them, by UID. :param cpu: ``None``: no state file that a kubelet would take.

    :param lesser: UIDs of pods whose cgroup is that of a pod which is not Guaranteed. The kubelet has seen the whole
        pod; what is known of one here may lack its init containers, whose requests count for its class.
    """

    def __init__(
        self, config: NodeConfig, pods: Mapping[str, Pod], cpu: CpuStateFile | None, lesser: frozenset[str]
    ) -> None:
        self.pods, self._lesser = pods, lesser
        self.static = config.cpu_manager_policy == "static"
        self._gates = config.feature_gates
        self._known = not self.static or (cpu is not None and bool(cpu.default or cpu.entries or cpu.pods))
        """Whether it can be said what owns CPUs: owners have no quota, so without it no quota is known. A file that
        says nothing is that of a manager that has not started yet."""
        self.entries = {(entry.pod_uid, entry.container): entry.cpus for entry in (cpu.entries if cpu else ())}
        self.pod_sets = {entry.pod_uid: entry.cpus for entry in (cpu.pods if cpu else ())}

    def may_own_unknown(self, subject: Subject) -> bool:
        """Whether it is not known if a container shares or owns CPUs, or is one at all."""
        owns = any(uid == subject.pod_uid for uid, _ in self.entries)
        return subject.nameless and (owns or not subject.threads)

    def unknown(self, subjects: Iterable[Subject]) -> str:
        """Say of how many that is not known; empty: of none."""
        number = sum(self.may_own_unknown(one) for one in subjects)
        cgroups = count(number, "cgroup of a pod", "cgroups of pods")
        return f"{cgroups}: not known which container {'it is' if number == 1 else 'each is'}" if number else ""

    def requested(self, uid: str, name: str) -> tuple[Pod | None, Container | None]:
        """Return a pod and its container as they were asked for, as far as they are known."""
        pod = self.pods.get(uid)
        return pod, pod.container(name) if pod else None

    def isolation(self, uid: str, name: str, asked_quota_us: int | None = None) -> Isolation:
        """Return what shares the CPUs of a container.

        :param asked_quota_us: by the runtime's word. In a pod with CPUs of its own whose requests are not known it is
            the containers that share which are asked a quota for, and owners for none.
        """
        if (uid, name) not in self.entries:
            return Isolation.HOST
        if uid not in self.pod_sets:
            return Isolation.CONTAINER
        pod, container = self.requested(uid, name)
        if pod is not None and container is not None:
            return Isolation.CONTAINER if self._asks_for_own(uid, pod, container) else Isolation.POD
        if self._gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS] and asked_quota_us:
            return Isolation.POD if asked_quota_us > 0 else Isolation.CONTAINER
        same = [key for key, cpus in self.entries.items() if key[0] == uid]
        cpus = self.entries[uid, name]
        return Isolation.POD if sum(self.entries[key] == cpus for key in same) > 1 else Isolation.CONTAINER

    def quota_known(self, uid: str, pod: Pod, container: Container) -> bool:
        """Whether a quota can be promised: a container that asks for CPUs of its own has none once it has got them,
        and keeps them when the state file forgets it.
        """
        forgotten = (
            self.static and (uid, container.name) not in self.entries and self._asks_for_own(uid, pod, container)
        )
        return self._known and not forgotten

    def _asks_for_own(self, uid: str, pod: Pod, container: Container) -> bool:
        return uid not in self._lesser and bool(own_cpus(pod, container, self._gates))


def own_cpus(pod: Pod, container: Container, gates: FeatureGates) -> int:
    """Return how many CPUs of its own a container asks for; 0: none."""
    managed = gates.pod_level_managers
    # Nothing looks after a budget without the gate: its containers share the node's pool, with their quotas.
    if pod.pod_level and not managed:
        return 0
    return exclusive_cpus(pod, container, pod_level_managers=managed)
