"""A node's claims as documents: the JSON of ``claims --json``, a claims file, and rows of a table. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from toolkit.model.claims import NO_QUOTA, Claim, SubjectKind
from toolkit.model.serde import to_data
from toolkit.sources.kubelet.claims import NodeClaims, Promise

SCHEMA = "pinproof.claims/1"
SHOWN = (
    "cpuset.cpus",
    "cpuset.cpus.effective",
    "cpuset.effective_cpus",
    "cpuset.mems",
    "cpuset.mems.effective",
    "cpuset.effective_mems",
    "cpu.max",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.weight",
    "cpu.shares",
)
"""Control files that ``observed`` repeats."""


def claims_data(node: NodeClaims) -> dict[str, Any]:
    """Return the claims document: the fields of the claims and what was found about each subject."""
    data = to_data(node.claims)
    assert isinstance(data, dict)
    found = {promise.subject.name: promise for promise in node.promises}
    rows = [row | _extra(found.pop(row["name"], None)) for row in data["claims"]]
    for promise in found.values():
        row = to_data(_bare(promise))
        assert isinstance(row, dict)
        rows.append(row | _extra(promise))
    missing = [{"part": part.part, "reason": part.reason} for part in node.missing]
    return {"schema": SCHEMA, **data, "claims": rows, "missing": missing}


def _bare(promise: Promise) -> Claim:
    subject = promise.subject
    return Claim(
        name=subject.name, cgroup=subject.cgroup, pod=subject.pod, container=subject.container, kind=subject.kind
    )


def _extra(promise: Promise | None) -> dict[str, Any]:
    if promise is None:
        return {}
    subject = promise.subject
    return {
        "id": subject.id,
        "pod_uid": subject.pod_uid,
        "state_cpus": None if promise.state is None else str(promise.state),
        "in_state": promise.in_state,
        "pod_cpus": None if promise.pod_cpus is None else str(promise.pod_cpus),
        "state_mems": None if promise.state_mems is None else list(promise.state_mems),
        "observed": {name: subject.files[name].strip() for name in SHOWN if name in subject.files},
        "thread_masks": sorted({thread.cpus_allowed for thread in subject.threads if thread.cpus_allowed}),
        "live_threads": len(subject.threads),
        "gone": subject.gone,
    }


def claims_yaml(node: NodeClaims) -> str:
    """Return a claims file that ``pinproof watch --claims`` takes."""
    claims = node.claims
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
    if claim.kind is not SubjectKind.CONTAINER:
        entry["kind"] = str(claim.kind)
    if claim.cpus is not None:
        entry |= {"cpus": str(claim.cpus), "isolation": str(claim.isolation)}
    if claim.mems is not None:
        entry["mems"] = str(claim.mems)
    if claim.quota_us is not None:
        quota = {"quotaUs": claim.quota_us, "periodUs": claim.period_us}
        entry["quota"] = "none" if claim.quota_us == NO_QUOTA else quota
    for key, value in (("shares", claim.shares), ("memoryBytes", claim.memory_bytes)):
        if value is not None:
            entry[key] = value
    return entry


def claims_rows(node: NodeClaims) -> list[tuple[str, ...]]:
    """Return rows: subject, kind, promised CPUs, isolation, memory nodes, what the cgroup says, thread masks."""
    rows: list[tuple[str, ...]] = []
    for promise in node.promises:
        subject, claim = promise.subject, promise.claim
        files = subject.files
        held = files.get("cpuset.cpus.effective", files.get("cpuset.effective_cpus", files.get("cpuset.cpus", "")))
        rows.append(
            (
                subject.name,
                "gone" if subject.gone else str(subject.kind),
                "" if promise.state is None else str(promise.state) or "none",
                str(claim.isolation) if claim is not None and claim.cpus else "",
                "" if promise.state_mems is None else str(promise.state_mems),
                held.strip(),
                " ".join(sorted({thread.cpus_allowed for thread in subject.threads if thread.cpus_allowed})),
            )
        )
    return rows


COLUMNS = ("subject", "kind", "state", "isolation", "mems", "cgroup", "threads")
