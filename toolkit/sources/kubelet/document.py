"""A node's claims as documents: the JSON of ``claims --json``, and rows of a table. Pure."""

from __future__ import annotations

from typing import Any

from toolkit.model.serde import to_data
from toolkit.sources.kubelet.promises.node import NodeClaims
from toolkit.sources.kubelet.promises.pod import Promise
from toolkit.sources.kubelet.subjects import bare_claim

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
        row = to_data(bare_claim(promise.subject))
        assert isinstance(row, dict)
        rows.append(row | _extra(promise))
    missing = [{"part": part.part, "reason": part.reason} for part in node.missing]
    return {"schema": SCHEMA, **data, "claims": rows, "missing": missing}


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
                _given(promise),
                str(claim.isolation) if claim is not None and claim.cpus else "",
                "" if promise.state_mems is None else str(promise.state_mems),
                held.strip(),
                " ".join(sorted({thread.cpus_allowed for thread in subject.threads if thread.cpus_allowed})),
            )
        )
    return rows


def _given(promise: Promise) -> str:
    """Return what a subject was given, and by what, where that was not the kubelet."""
    if promise.pinned is not None and promise.pinned.cpus is not None:
        return f"{promise.pinned.cpus} ({promise.pinned.source})"
    return "" if promise.state is None else str(promise.state) or "none"


COLUMNS = ("subject", "kind", "state", "isolation", "mems", "cgroup", "threads")
