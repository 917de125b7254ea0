"""The bounds of the weight of a Burstable class: the sum of its pods' requests, as the kubelet saw it last.

The kubelet sums up once a minute, and when it makes a pod. So a pod that began a minute ago is in the sum, one that
began later may be, and one that ended may be in it still: a pod that is gone is in no list. A kubelet that starts sums
up before it knows its pods: for a minute the class may have the least there is, with pods at work in it. What all of
them together may be is what the machine has, for a kubelet admits no more. Of a pod whose containers' roles are not
known the request is between that of the one that asks for most and that of all.

Source: kubernetes ``pkg/kubelet/cm/qos_container_manager_linux.go`` (``setCPUCgroupConfig``,
``periodicQOSCgroupUpdateInterval``, ``Start``), ``pkg/kubelet/kubelet.go`` (``UpdateQOSCgroups``, asked of pods without
a cgroup alone); docs/facts.md K-shares, K-class, K-pod.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from toolkit.allocation.cgroup_values import milli_to_shares
from toolkit.kubernetes.pod import CPU, Pod, effective_requests
from toolkit.model.claims import Claim
from toolkit.model.cpu_units import MAX_SHARES
from toolkit.model.node_reading import NodeReading
from toolkit.sources.json_parts import parsed
from toolkit.sources.kubelet.machine import captured_topology
from toolkit.sources.kubelet.pod_paths import class_of, place_of
from toolkit.sources.kubelet.pods import Requested
from toolkit.text.names import from_text

BURSTABLE = "burstable"
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

    def shares_between(self, now_s: float | None, started_s: float | None) -> tuple[int, int]:
        """Return the least and the most shares that the class may have.

        :param now_s, started_s: the time, and since when this kubelet runs; ``None``: it is not known.
        """
        settled_s = float("-inf") if now_s is None else now_s - UPDATED_S
        knows = started_s is not None and started_s <= settled_s
        least = sum(milli for began_s, milli in self.pods if knows and began_s <= settled_s)
        return milli_to_shares(least), MAX_SHARES if self.cpus is None else milli_to_shares(self.cpus * 1000)


def class_sums(reading: NodeReading, tree: Iterable[str], asked_for: Requested) -> dict[str, ClassSum]:
    """Return what a reading says of each Burstable class, by its cgroup: a system partition's pods are in none.

    :param tree: all cgroups that were read. :param asked_for: what pods request, as the kubelet's gates show them.
    """
    paths, cpus = tuple(tree), _cpus(reading)
    found = {}
    for path in paths:
        if class_of(path) == BURSTABLE:
            places = (place_of(one) for one in paths if one.startswith(f"{path}/"))
            inside = {place.pod_uid for place in places if place is not None}
            found[from_text(path)] = ClassSum(pods=_pods(reading, asked_for, inside), cpus=cpus)
    return found


def _pods(reading: NodeReading, asked_for: Requested, inside: Container[str]) -> tuple[tuple[float, int], ...]:
    """Return the pods of a class as in :class:`ClassSum`. :param inside: UIDs of those in its cgroup."""
    found: dict[str, tuple[float, int]] = {}
    for one in reading.containers or ():
        uid = one.pod_uid
        pod = asked_for.pods.get(uid) if one.sandbox and one.ready and one.created_at_ns and uid in inside else None
        if pod is not None:
            ways = (pod, asked_for.in_force.get(uid, pod))
            least = min(_least_milli(way, rough=uid in asked_for.partial) for way in ways)
            began_s = (one.created_at_ns or 0) / 1e9
            found[uid] = max(began_s, found.get(uid, (began_s, 0))[0]), least
    return tuple(sorted(found.values()))


def with_bounds(claim: Claim, known: Mapping[str, ClassSum], now_s: float, started_s: float | None) -> Claim:
    """Return the claim of a class with its bounds as they are now, and each other claim as it is.

    :param known: by cgroup. :param started_s: as in :meth:`ClassSum.shares_between`.
    """
    of_class = known.get(claim.cgroup)
    return claim if of_class is None else replace(claim, shares_between=of_class.shares_between(now_s, started_s))


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
