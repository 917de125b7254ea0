"""What the kubelet promises about the cgroups above pods: ``kubepods`` and the QoS classes. None has a quota.

``besteffort`` has the least weight. That of ``burstable`` is a sum over its pods, brought up to date once a minute, and
so not claimed. ``kubepods`` has the weight of the CPUs that are not reserved since the kubelet started; its limit of
memory comes from /proc/meminfo, which no capture holds (the nodes' totals may differ from it).
Source: kubernetes ``pkg/kubelet/cm/node_container_manager_linux.go``, ``qos_container_manager_linux.go``; docs/facts.md
K-pod, K-shares.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.allocation.cgroup_values import milli_to_shares
from toolkit.allocation.node import Node
from toolkit.kubernetes.pod import CPU
from toolkit.model.claims import NO_QUOTA, Claim, SubjectKind, qos_claim_name
from toolkit.model.cpu_units import MIN_SHARES
from toolkit.model.node_reading import NodeReading
from toolkit.sources.kubelet.modelled import captured_topology
from toolkit.sources.kubelet.pod_paths import QOS, place_of, root_of
from toolkit.sources.kubelet.subjects import merged_tree
from toolkit.text.names import from_text, to_path

BURSTABLE, BEST_EFFORT = "burstable", "besteffort"


def class_of(path: str) -> str:
    """Return the QoS class whose cgroup a path is; empty: none's. Guaranteed pods are in the cgroup of all pods."""
    above, _, name = path.rstrip("/").rpartition("/")
    found = QOS.fullmatch(name) if above and root_of(path) == above else None
    return found[1] if found else ""


def parent_claims(reading: NodeReading, cgroups: Iterable[str], node: Node | None) -> tuple[Claim, ...]:
    """Return the claims of those that have containers with claims below them.

    :param cgroups: of the containers. :param node: the kubelet in the model, where its machine is known.
    """
    below = tuple(map(to_path, cgroups))
    roots = {place.root for place in map(place_of, below) if place is not None}
    found = []
    for path in sorted(merged_tree(reading)):
        qos, root = class_of(path), path in roots
        if not (qos or root) or not any(one.startswith(f"{path}/") for one in below):
            continue
        shares = MIN_SHARES if qos == BEST_EFFORT else None
        if root and node is not None and _enforced(reading, node):
            shares = milli_to_shares(node.allocatable[CPU].milli)
        found.append(
            Claim(
                name=qos_claim_name(qos or "kubepods"),
                cgroup=from_text(path),
                kind=SubjectKind.QOS,
                quota_us=NO_QUOTA,
                shares=shares,
                contended=False,
            )
        )
    return tuple(found)


def _enforced(reading: NodeReading, node: Node) -> bool:
    """Whether its weight is that of the machine as it is: with a CPU offline the kubelet may have started with others,
    and which CPUs an amount reserves was only computed here.
    """
    topology = captured_topology(reading.sysfs)
    whole = not isinstance(topology, str) and not topology.offline
    return whole and "pods" in node.config.enforce_node_allocatable and bool(node.config.reserved_system_cpus)
