"""Claims as a claims file that ``pinproof watch --claims`` takes. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from toolkit.model.claims import NO_QUOTA, AssignedDevice, Claim, ClaimSet, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.memory_units import NO_LIMIT


def claims_yaml(claims: ClaimSet) -> str:
    """Return a claims file."""
    document: dict[str, Any] = {
        "apiVersion": "pinproof/v1",
        "kind": "Claims",
        "reservedCPUs": str(claims.reserved_cpus),
        "strictReservation": claims.strict_reservation,
        "policy": str(claims.policy),
    }
    if claims.pods_root is not None:
        document["podsRoot"] = claims.pods_root
    if claims.reconcile_period_s is not None:
        document["reconcilePeriodS"] = claims.reconcile_period_s
    document["claims"] = [_entry(claim) for claim in claims.claims]
    text = yaml.safe_dump(document, sort_keys=False, width=4096, allow_unicode=True)
    return str(text)


def _entry(claim: Claim) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": claim.name, "cgroup": claim.cgroup, "pod": claim.pod, "container": claim.container}
    if claim.namespace:
        entry["namespace"] = claim.namespace
    if claim.pod_uid:
        entry["podUID"] = claim.pod_uid
    if claim.kind is not SubjectKind.CONTAINER:
        entry["kind"] = str(claim.kind)
    if claim.cpus is not None:
        entry |= {"cpus": str(claim.cpus), "isolation": str(claim.isolation)}
    if claim.mems is not None:
        entry["mems"] = str(claim.mems)
    if claim.pinned_by:
        entry["pinnedBy"] = claim.pinned_by
    if claim.by_mask:
        entry["byMask"] = True
    for key, wider in (("requestedCpus", claim.requested_cpus), ("requestedMems", claim.requested_mems)):
        if wider is not None:
            entry[key] = str(wider)
    if claim.quota_us is not None:
        quota = {"quotaUs": claim.quota_us, "periodUs": claim.period_us}
        entry["quota"] = "none" if claim.quota_us == NO_QUOTA else quota
    memory, high = ("none" if value == NO_LIMIT else value for value in (claim.memory_bytes, claim.memory_high_bytes))
    amounts = ("memoryBytes", memory), ("memoryHighBytes", high)
    for key, value in (("weight", claim.weight), ("shares", claim.shares), *amounts):
        if value is not None:
            entry[key] = value
    if claim.hugepages:
        entry["hugepages"] = {limit.page_bytes: limit.limit_bytes for limit in claim.hugepages}
    for key, words in (("alignments", claim.alignments), ("preferences", claim.preferences)):
        if words:
            entry[key] = [str(word) for word in words]
    if claim.max_numa_nodes is not None:
        entry["maxNumaNodes"] = claim.max_numa_nodes
    if claim.devices:
        entry["devices"] = list(claim.devices)
    if claim.assigned_devices:
        entry["assignedDevices"] = [_device(device) for device in claim.assigned_devices]
    return entry


def _device(device: AssignedDevice) -> dict[str, Any]:
    """Return a device without what is not known of it."""
    said = {
        "id": device.id,
        "resource": device.resource,
        "claim": device.claim,
        "numaNodes": str(CpuSet.of(device.numa_nodes)),
        "cdi": list(device.cdi),
        "aligned": str(device.aligned or ""),
    }
    return {key: value for key, value in said.items() if value}
