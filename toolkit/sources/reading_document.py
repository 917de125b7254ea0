"""A source's reading as documents: the JSON of ``claims --json`` and rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.model.claims import NO_QUOTA, Claim
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.serde import to_data
from toolkit.sources.kubelet.document import SCHEMA
from toolkit.sources.live_source import SourceReading

COLUMNS = ("subject", "cgroup", "cpus", "isolation", "mems", "quota us", "weight", "memory bytes", "cgroup has")


def reading_data(source: str, reading: SourceReading, observed: Mapping[str, str]) -> dict[str, Any]:
    """Return the claims document. :param observed: claim name -> the CPUs that its cgroup gives now."""
    data = to_data(reading.claims)
    assert isinstance(data, dict)
    rows = [
        row | {"state_cpus": None, "observed": {"cpuset.cpus.effective": observed[row["name"]]}}
        if row["name"] in observed
        else row | {"state_cpus": None, "observed": {}}
        for row in data["claims"]
    ]
    missing = [{"part": part.part, "reason": part.reason} for part in reading.missing]
    return {"schema": SCHEMA, "source": source, **data, "claims": rows, "missing": missing}


def reading_rows(reading: SourceReading, observed: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return a row a claim."""
    return [_row(claim, observed.get(claim.name, "")) for claim in reading.claims.claims]


def _row(claim: Claim, held: str) -> tuple[str, ...]:
    quota = ""
    if claim.quota_us is not None:
        quota = "none" if claim.quota_us == NO_QUOTA else f"{claim.quota_us}/{claim.period_us}"
    weight = "" if claim.weight is None else str(claim.weight)
    return (
        claim.name,
        claim.cgroup,
        str(claim.cpus or ""),
        str(claim.isolation) if claim.cpus else "",
        str(claim.mems or ""),
        quota,
        weight if claim.shares is None else f"{claim.shares} shares",
        "" if claim.memory_bytes is None else "none" if claim.memory_bytes == NO_LIMIT else str(claim.memory_bytes),
        held,
    )
