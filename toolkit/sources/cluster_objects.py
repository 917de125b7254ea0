"""Objects of the cluster that say more of what pins a node's containers than the node does, as kubectl prints them.

``kubectl get balloonspolicies,topologyawarepolicies,noderesourcetopologies,resourceslices -A -o yaml``: whether an NRI
policy pins CPUs and memory at all, what it has published of each container, and which CPUs the DRA CPU driver has.

Source: https://github.com/containers/nri-plugins ``pkg/apis/config/v1alpha1/resmgr/policy`` (``pinCPU``,
``pinMemory``), ``cmd/plugins/balloons/policy/balloons-policy.go`` (``GetTopologyZones``); NodeResourceTopology
v1alpha2; Kubernetes API reference, ResourceSlice v1; https://github.com/kubernetes-sigs/dra-driver-cpu ``pkg/device``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet, cpus_text
from toolkit.model.node_reading import RuntimeContainer
from toolkit.sources.dra_cpu import SOURCE
from toolkit.sources.json_parts import items, load, mapping, number, parsed, text
from toolkit.sources.pinned import Pinned, PinnedWords
from toolkit.text.names import printable
from toolkit.text.yaml_text import parse_document

FILE = "cluster_objects.json"
"""Where a capture has what of them is kept."""
POLICIES = {"BalloonsPolicy": "balloons", "TopologyAwarePolicy": "topology-aware"}
ZONES, SLICE = "NodeResourceTopology", "ResourceSlice"
OF_CONTAINER = "allocation for container"
DRIVER = "dra.cpu"
EXPECTED = "what kubectl get -o yaml or -o json prints"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObjects:
    """:param no_cpus, no_memory: policies that are told not to pin these.

    :param zones: CPUs by ``namespace/pod/container``, as a policy has published them. :param dra_cpus: CPUs that the
        DRA CPU driver has published one by one; ``None``: it has not.
    """

    no_cpus: frozenset[str] = frozenset()
    no_memory: frozenset[str] = frozenset()
    zones: dict[str, CpuSet] = field(default_factory=dict)
    dra_cpus: CpuSet | None = None


def kept(data: bytes, where: str) -> bytes:
    """Keep of such a text what is used.

    :raises InputError: it is no such text; the message quotes nothing of it.
    """
    try:
        whole = parse_document(data.decode("utf-8", "replace"), where)
    except InputError:
        raise InputError(where, "no YAML and no JSON document", EXPECTED) from None
    rows = [row for one in _listed(whole) if (row := _kept(one)) is not None]
    if not rows:
        raise InputError(where, "none of the objects that are read", EXPECTED)
    return json.dumps({"items": rows}, indent=1).encode()


def _listed(whole: object) -> Iterator[dict[str, Any]]:
    found = mapping(whole)
    return map(mapping, items(found.get("items")) if "items" in found else [found])


def _kept(one: dict[str, Any]) -> dict[str, Any] | None:
    kind, spec = one.get("kind"), mapping(one.get("spec"))
    name = {"metadata": {"name": text(mapping(one.get("metadata")).get("name"))}}
    if kind in POLICIES:
        return {"kind": kind, **name, "spec": {key: spec[key] for key in ("pinCPU", "pinMemory") if key in spec}}
    if kind == ZONES:
        zones = [
            {key: zone[key] for key in ("name", "type", "attributes") if key in zone}
            for zone in map(mapping, items(one.get("zones")))
            if zone.get("type") == OF_CONTAINER
        ]
        return {"kind": kind, **name, "zones": zones}
    if kind == SLICE and spec.get("driver") == DRIVER:
        devices = [{"attributes": _ids(row)} for row in map(mapping, items(spec.get("devices")))]
        return {"kind": kind, **name, "spec": {"driver": DRIVER, "devices": devices}}
    return None


def _ids(device: dict[str, Any]) -> dict[str, Any]:
    said = mapping(device.get("attributes")) or mapping(mapping(device.get("basic")).get("attributes"))
    return {key: value for key, value in said.items() if key.rpartition("/")[2] == "cpuID"}


@lru_cache(8)
def objects(data: str) -> ClusterObjects:
    """Read what was kept.

    :raises InputError: it is no such document.
    """
    found = load(data.encode("utf-8", "replace"), FILE)
    if not isinstance(found, dict):
        raise InputError(FILE, "no mapping", EXPECTED)
    rows = list(_listed(found))
    policies = [(POLICIES[row["kind"]], mapping(row.get("spec"))) for row in rows if row.get("kind") in POLICIES]
    zones = [zone for row in rows if row.get("kind") == ZONES for zone in map(mapping, items(row.get("zones")))]
    devices = [
        mapping(device.get("attributes"))
        for row in rows
        if row.get("kind") == SLICE
        for device in map(mapping, items(mapping(row.get("spec")).get("devices")))
    ]
    ids = [number(mapping(value).get("int")) for one in devices for value in one.values()]
    cpus = CpuSet.of(cpu for cpu in ids if cpu is not None and 0 <= cpu < 1 << 16)
    return ClusterObjects(
        no_cpus=frozenset(name for name, spec in policies if spec.get("pinCPU") is False),
        no_memory=frozenset(name for name, spec in policies if spec.get("pinMemory") is False),
        zones={text(zone.get("name")): cpus for zone in zones if (cpus := _cpuset(zone))},
        dra_cpus=cpus or None,
    )


def _cpuset(zone: dict[str, Any]) -> CpuSet:
    said = {text(row.get("name")): text(row.get("value")) for row in map(mapping, items(zone.get("attributes")))}
    return parsed(said.get("cpuset", "")) or CpuSet()


def told(said: PinnedWords, containers: Iterable[RuntimeContainer], data: str | None) -> PinnedWords:
    """Return what programs have pinned, as these objects let it stand. :param data: them; ``None``: none were given.

    What a policy is told to leave alone is in its cache as it was found there. What it has published of a container
    that its cache does not name is its word; where both speak the cache does, which is written first.
    """
    if data is None:
        return said
    try:
        known = objects(data)
    except InputError as error:
        return replace(said, unread="; ".join(filter(None, (said.unread, str(error)))))
    found = {key: one for key, pinned in said.by_id.items() if (one := _left(pinned, known)) is not None}
    problems = list(said.problems)
    for container in containers:
        name = f"{container.pod_namespace}/{container.pod_name}/{container.name}"
        zone, own = known.zones.get(name), found.get(printable(container.id))
        if zone and printable(container.id) not in said.by_id:
            found[printable(container.id)] = Pinned(source="NRI (NodeResourceTopology)", cpus=zone)
        elif zone and own is not None and own.cpus not in (None, zone):
            problems.append(f"{printable(name)}: {own.source} says CPUs {own.cpus}, its NodeResourceTopology {zone}")
        if own is not None and own.source == SOURCE and known.dra_cpus and own.cpus and not own.cpus <= known.dra_cpus:
            more = own.cpus - known.dra_cpus
            problems.append(f"{printable(name)}: no ResourceSlice of {SOURCE} has {cpus_text(more)}")
            del found[printable(container.id)]
    return replace(said, by_id=found, problems=tuple(problems))


def _left(pinned: Pinned, known: ClusterObjects) -> Pinned | None:
    policy = pinned.source.removeprefix("NRI ")
    if policy == pinned.source:
        return pinned
    if policy in known.no_cpus:
        pinned = replace(pinned, cpus=None, shares=None, exclusive=False)
    if policy in known.no_memory:
        pinned = replace(pinned, mems=None)
    return pinned if pinned.cpus or pinned.mems else None
