"""The Device Manager as one more hint provider: devices with NUMA nodes, given to containers that ask for them.

Not the plugin protocol: there is no preferred-allocation call and no health; which device of a node a container gets is
the one with the smallest id. Source: Kubernetes documentation "Device Plugin Integration with the Topology Manager"
and "Device Manager" (``docs/specification.md``); KEP-693.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolkit.allocation.admission import unexpected
from toolkit.allocation.cpu.hints import MAX_NUMA_NODES
from toolkit.allocation.topology.hint import NO_AFFINITY, Hints, TopologyHint
from toolkit.errors import InputError
from toolkit.kubernetes.pod import Container, Pod
from toolkit.text.wording import kind_of

DEVICES_UNAVAILABLE = "requested number of devices unavailable"
"""In the message of a pod that is refused because of its devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of an extended resource. :param numa: nodes that it is close to; empty: it does not say."""

    resource: str
    id: str
    numa: tuple[int, ...] = ()


def read_devices(data: object, where: str) -> tuple[Device, ...]:
    """Read ``devices: [{resource, id, numa}]`` of a scenario; ``numa`` is a node or a list of nodes.

    :raises InputError: wrong types, or a device twice.
    """
    if data is None:
        return ()
    if not isinstance(data, list):
        raise InputError(where, kind_of(data), "a list of {resource, id, numa}")
    devices = []
    for i, item in enumerate(data):
        place = f"{where}[{i}]"
        if not isinstance(item, dict) or not item.keys() <= {"resource", "id", "numa"}:
            raise InputError(place, f"{item!r}"[:60], "{resource, id, numa}")
        resource, name, numa = item.get("resource"), item.get("id"), item.get("numa")
        if not isinstance(resource, str) or "/" not in resource:
            raise InputError(f"{place}.resource", f"{resource!r}"[:60], "an extended resource (domain/name)")
        nodes = [] if numa is None else numa if isinstance(numa, list) else [numa]
        if any(type(node) is not int or not 0 <= node < 1024 for node in nodes):
            raise InputError(f"{place}.numa", f"{numa!r}"[:60], "a NUMA node id or a list of them")
        devices.append(Device(resource=resource, id=str(name), numa=tuple(sorted(set(nodes)))))
    if len({(d.resource, d.id) for d in devices}) != len(devices):
        raise InputError(where, "a device twice", "every id once per resource")
    return tuple(devices)


class DeviceManager:
    """Devices of one node and the containers that have them."""

    def __init__(self, devices: Iterable[Device], node_ids: Iterable[int]) -> None:
        self._devices: dict[str, dict[str, Device]] = {}
        for device in devices:
            self._devices.setdefault(device.resource, {})[device.id] = device
        self._nodes = sorted(node_ids)
        self.owners: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
        """(pod uid, container) -> resource -> device ids."""
        self._reusable: dict[str, dict[str, set[str]]] = {}

    def container_hints(self, pod: Pod, container: Container) -> Hints | None:
        """Answer the Topology Manager's question about one container; ``None``: no opinion."""
        return self._hints(pod, self._counts([container]), self.owners.get((pod.uid, container.name), {}))

    def pod_hints(self, pod: Pod) -> Hints | None:
        """Answer the Topology Manager's question about a whole pod."""
        owned: dict[str, tuple[str, ...]] = {}
        for container in pod.containers:
            for resource, ids in self.owners.get((pod.uid, container.name), {}).items():
                owned[resource] = (*owned.get(resource, ()), *ids)
        return self._hints(pod, self._peak(pod), owned)

    def allocate(self, pod: Pod, container: Container, affinity: TopologyHint = NO_AFFINITY) -> None:
        """Give a container its devices, those on the hint's nodes first.

        :raises AdmissionError: there are not enough.
        """
        key = (pod.uid, container.name)
        for resource, count in self._counts([container]).items():
            if resource in self.owners.get(key, {}):
                continue
            reusable = (
                self._reusable.get(pod.uid, {}).setdefault(resource, set()) if pod.uid in self._reusable else set()
            )
            free = self._free(resource) | reusable
            if len(free) < count:
                # What the pod uses again comes first; the kubelet then reports what is missing beyond that.
                missing, left = count - len(reusable), len(free - reusable)
                raise unexpected(f"{DEVICES_UNAVAILABLE} for {resource}. Requested: {missing}, Available: {left}")
            chosen = self._choose(resource, count, free, reusable, affinity)
            self.owners.setdefault(key, {})[resource] = chosen
            pool = self._reusable.setdefault(pod.uid, {}).setdefault(resource, set())
            pool.update(chosen) if container.is_regular_init else pool.difference_update(chosen)

    def allocate_pod(self, pod: Pod, affinity: TopologyHint = NO_AFFINITY) -> None:
        """Do nothing: devices are no part of a pod-level budget (KEP-5526)."""

    def placed(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """Return the ids of a container's devices of which the NUMA node is known."""
        owned = self.owners.get((pod.uid, container.name), {})
        return tuple(sorted(i for resource, ids in owned.items() for i in ids if self._devices[resource][i].numa))

    def remove_stale(self, active: Mapping[str, Pod]) -> None:
        """Take back what belongs to no container of an active pod."""
        for uid, name in list(self.owners):
            if uid not in active or active[uid].container(name) is None:
                del self.owners[uid, name]
        for uid in set(self._reusable) - set(active):
            del self._reusable[uid]

    def _counts(self, containers: Iterable[Container]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for container in containers:
            for name, amount in container.resources.limits.items():
                if name in self._devices and amount:
                    counts[name] = counts.get(name, 0) + amount.value
        return counts

    def _peak(self, pod: Pod) -> dict[str, int]:
        """Count what the pod needs at the same time at most."""
        running = self._counts(c for c in pod.containers if not c.is_regular_init)
        peak = dict(running)
        sidecars: dict[str, int] = {}
        for container in pod.init_containers:
            for name, count in self._counts([container]).items():
                if container.is_sidecar:
                    sidecars[name] = sidecars.get(name, 0) + count
                else:
                    peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + count)
        return peak

    def _free(self, resource: str) -> set[str]:
        taken = {i for owned in self.owners.values() for i in owned.get(resource, ())}
        return set(self._devices[resource]) - taken

    def _hints(self, pod: Pod, counts: Mapping[str, int], owned: Mapping[str, tuple[str, ...]]) -> Hints | None:
        hints: dict[str, list[TopologyHint] | None] = {}
        for resource, count in counts.items():
            devices = self._devices[resource]
            if not any(device.numa for device in devices.values()):
                hints[resource] = None
                continue
            mine = set(owned.get(resource, ()))
            reusable = self._reusable.get(pod.uid, {}).get(resource, set())
            candidates = mine or self._free(resource) | reusable
            if mine and len(mine) != count:
                candidates = set()
            hints[resource] = self._masks(devices, candidates, reusable, count) if len(candidates) >= count else []
        return hints or None

    def _masks(
        self, devices: Mapping[str, Device], candidates: set[str], reusable: set[str], count: int
    ) -> list[TopologyHint]:
        if len(self._nodes) > MAX_NUMA_NODES:
            raise InputError("machine", f"{len(self._nodes)} NUMA nodes", f"at most {MAX_NUMA_NODES} for device hints")
        fewest = len(self._nodes)
        possible = []
        for subset in range(1, 1 << len(self._nodes)):
            nodes = {node for i, node in enumerate(self._nodes) if subset >> i & 1}
            # As many as the nodes could ever give says what "as few nodes as possible" means on an empty machine.
            if sum(1 for device in devices.values() if nodes & set(device.numa)) >= count:
                fewest = min(fewest, len(nodes))
            near = {i for i in candidates if nodes & set(devices[i].numa)}
            placed = {i for i in reusable & candidates if devices[i].numa}
            # A device that does not say where it is counts nowhere, not even where it could fill the request.
            if len(near) >= count and placed <= near:
                possible.append(nodes)
        return [TopologyHint(sum(1 << n for n in nodes), len(nodes) == fewest) for nodes in possible]

    def _choose(
        self, resource: str, count: int, free: set[str], reusable: set[str], affinity: TopologyHint
    ) -> tuple[str, ...]:
        devices = self._devices[resource]

        def rank(device_id: str) -> tuple[bool, int, str]:
            numa = devices[device_id].numa
            near = affinity.numa is not None and any(affinity.numa >> node & 1 for node in numa)
            distance = 0 if near or affinity.numa is None else 1 if numa else 2
            return (device_id not in reusable, distance, device_id)

        return tuple(sorted(sorted(free, key=rank)[:count]))
