"""The bounds of the weight of the Burstable class: the sum of its pods' requests, as the kubelet saw it last.

The kubelet sums up once a minute, and when it makes a pod. So a pod that began a minute ago is in the sum, one that
began later may be, and one that ended may be in it still: a pod that is gone is in no list. What all of them together
may be is what the machine has, for a kubelet admits no more. Of a pod whose containers' roles are not known the
request is between that of the one that asks for most and that of all.

Source: kubernetes ``pkg/kubelet/cm/qos_container_manager_linux.go`` (``setCPUCgroupConfig``,
``periodicQOSCgroupUpdateInterval``), ``pkg/kubelet/kubelet.go`` (``UpdateQOSCgroups``); docs/facts.md K-shares, K-pod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from toolkit.allocation.cgroup_values import milli_to_shares
from toolkit.kubernetes.pod import CPU, Pod, effective_requests
from toolkit.model.claims import Claim
from toolkit.model.cpu_units import MAX_SHARES
from toolkit.model.node_reading import NodeReading
from toolkit.model.plan import QosClass
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.machine import captured_topology

UPDATED_S = 90.0
"""So old a pod is in the sum for certain: the kubelet's minute, and a busy node's half of one more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSum:
    """What is known of the sum.

    :param pods: of each Burstable pod whose sandbox runs since when (seconds of the epoch), and the least that it
        requests, in thousandths. :param cpus: of the machine; ``None``: not known.
    """

    pods: tuple[tuple[float, int], ...]
    cpus: int | None

    def shares_between(self, now_s: float | None) -> tuple[int, int]:
        """Return the least and the most shares that the class may have. :param now_s: ``None``: it is not known."""
        settled_s = float("-inf") if now_s is None else now_s - UPDATED_S
        least = sum(milli for began_s, milli in self.pods if began_s <= settled_s)
        return milli_to_shares(least), MAX_SHARES if self.cpus is None else milli_to_shares(self.cpus * 1000)


NOTHING = ClassSum(pods=(), cpus=None)


def class_sum(
    reading: NodeReading, pods: Mapping[str, Pod], before: Mapping[str, Pod], partial: Collection[str]
) -> ClassSum:
    """Return what a reading says of it.

    :param pods: by UID, as the kubelet's gates show them. :param before: those whose resize is under way, as they were.
    :param partial: UIDs of pods whose containers' roles are not known.
    """
    found: dict[str, tuple[float, int]] = {}
    for one in reading.containers or ():
        pod = pods.get(one.pod_uid) if one.sandbox and one.ready and one.created_at_ns else None
        if pod is not None and pod.qos_class is QosClass.BURSTABLE:
            ways = (pod, before.get(one.pod_uid, pod))
            least = min(_least_milli(way, rough=one.pod_uid in partial) for way in ways)
            began_s = (one.created_at_ns or 0) / 1e9
            found[one.pod_uid] = max(began_s, found.get(one.pod_uid, (began_s, 0))[0]), least
    return ClassSum(pods=tuple(sorted(found.values())), cpus=_cpus(reading))


def with_bounds(claim: Claim, known: ClassSum, now_s: float) -> Claim:
    """Return the claim of the class with its bounds as they are now, and each other claim as it is."""
    if claim.shares_between is None:
        return claim
    return replace(claim, shares_between=known.shares_between(now_s))


def read_s(reading: NodeReading) -> float | None:
    """Return when its sandboxes were listed, where that is known."""
    return reading.read_at_s.get("sockets_read", reading.read_at_s.get("cgroup_read"))


def _least_milli(pod: Pod, *, rough: bool) -> int:
    if rough:
        return max((one.request(CPU).milli for one in pod.containers), default=0)
    request = effective_requests(pod).get(CPU)
    return 0 if request is None else request.milli


def _cpus(reading: NodeReading) -> int | None:
    """Return how many CPUs the machine has, those too that are offline now: the kubelet may have started with them."""
    topology = captured_topology(reading.sysfs)
    if not isinstance(topology, str):
        return len(topology.online | topology.offline)
    online = parsed(reading.online) if reading.online else None
    return len(online) if online else None
