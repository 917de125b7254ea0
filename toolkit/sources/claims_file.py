"""The claims file: what a user, another tool, or an Ansible play writes (``apiVersion: pinproof/v1, kind: Claims``).

Keys are camelCase as in Kubernetes files; :mod:`toolkit.model.claims` is what they become. Source: docs/principles.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from toolkit.errors import InputError
from toolkit.model.claims import (
    NO_QUOTA,
    Alignment,
    Claim,
    ClaimSet,
    ExclusivePolicy,
    HugepageLimit,
    Isolation,
    Preference,
    SubjectKind,
)
from toolkit.model.cpu_units import MAX_SHARES, MAX_WEIGHT, MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.documents import check_kind
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.names import canonical, printable, raw
from toolkit.model.serde import first_problem, read_text
from toolkit.model.yaml_text import MAX_BYTES, parse_document

MAX_CLAIMS = 4096
MAX_NUMBER = 2**63 - 1
"""The largest number that a cgroup file holds."""
OURS = "pinproof-"
"""How the names of the controls that pinproof plants begin: a claim of that name would be taken for one of them."""
EXPECTED = "a claims file (apiVersion: pinproof/v1, kind: Claims)"


def _list_text(value: object) -> object:
    """YAML reads an unquoted ``cpus: 3`` as a number; users mean CPU 3."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


PageBytes = Annotated[int, Field(ge=4096, le=MAX_NUMBER)]
Bytes = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
CpuList = Annotated[CpuSet, BeforeValidator(_list_text)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, alias_generator=lambda name: to_camel(name))


class _Quota(_Entry):
    quota_us: int = Field(ge=1000, le=MAX_NUMBER)
    period_us: int = Field(default=100_000, ge=1000, le=1_000_000)
    burst_us: int = Field(default=0, ge=0, le=MAX_NUMBER)


class _Claim(_Entry):
    name: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    cgroup: Annotated[str, StringConstraints(min_length=2, max_length=4096)]
    pod: str = ""
    pod_uid: str = Field(default="", alias="podUID")
    container: str = ""
    kind: SubjectKind = SubjectKind.CONTAINER
    cpus: CpuList | None = None
    by_mask: bool = False
    requested_cpus: CpuList | None = None
    requested_mems: CpuList | None = None
    isolation: Isolation = Isolation.HOST
    mems: CpuList | None = None
    quota: Literal["none"] | _Quota | None = None
    weight: int | None = Field(default=None, ge=1, le=MAX_WEIGHT)
    shares: int | None = Field(default=None, ge=MIN_SHARES, le=MAX_SHARES)
    memory_bytes: Literal["none"] | Bytes | None = None
    hugepages: dict[PageBytes, Bytes] = Field(default_factory=dict)
    alignments: tuple[Alignment, ...] = ()
    preferences: tuple[Preference, ...] = ()
    max_numa_nodes: int | None = Field(default=None, ge=1, le=1024)
    devices: tuple[str, ...] = ()
    demand_cpus: float | None = Field(default=None, ge=0)

    def claim(self) -> Claim:
        quota = self.quota if isinstance(self.quota, _Quota) else None
        return Claim(
            name=self.name,
            cgroup="/" + canonical(self.cgroup.strip("/")),
            pod=self.pod,
            pod_uid=self.pod_uid,
            container=self.container or self.name,
            kind=self.kind,
            cpus=self.cpus,
            by_mask=self.by_mask,
            requested_cpus=self.requested_cpus,
            requested_mems=self.requested_mems,
            isolation=self.isolation,
            mems=self.mems,
            quota_us=quota.quota_us if quota else NO_QUOTA if self.quota == "none" else None,
            period_us=quota.period_us if quota else 100_000,
            burst_us=quota.burst_us if quota else 0,
            weight=self.weight,
            shares=self.shares,
            memory_bytes=NO_LIMIT if self.memory_bytes == "none" else self.memory_bytes,
            hugepages=tuple(HugepageLimit(page_bytes=p, limit_bytes=n) for p, n in sorted(self.hugepages.items())),
            alignments=self.alignments,
            preferences=self.preferences,
            max_numa_nodes=self.max_numa_nodes,
            devices=self.devices,
            demand_cpus=self.demand_cpus,
        )


class ClaimsDocument(BaseModel):
    """The file as it is written; its JSON Schema ships with pinproof."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    api_version: Literal["pinproof/v1"] = Field(alias="apiVersion")
    kind: Literal["Claims"]
    reserved_cpus: CpuList = Field(default=CpuSet(), alias="reservedCPUs")
    strict_reservation: bool = Field(default=False, alias="strictReservation")
    policy: ExclusivePolicy = ExclusivePolicy.K8S
    pods_root: str | None = Field(default=None, alias="podsRoot")
    transition_limit_ms: float | None = Field(default=None, ge=0, alias="transitionLimitMs")
    noise_budget_ns_per_s: int | None = Field(default=None, ge=0, alias="noiseBudgetNsPerS")
    reconcile_period_s: float | None = Field(default=None, gt=0, alias="reconcilePeriodS")
    claims: tuple[_Claim, ...] = Field(max_length=MAX_CLAIMS)


def parse_claims(text: str, where: str) -> ClaimSet:
    """Read a claims document.

    :raises InputError: one line that names the place, what was found and what was expected.
    """
    data = parse_document(text, where, decimal_but=frozenset())
    check_kind(data, "Claims", where, EXPECTED)
    try:
        document = ClaimsDocument.model_validate(data)
    except ValidationError as error:
        raise InputError(where, first_problem(error), EXPECTED) from None
    claims = ClaimSet(
        claims=tuple(entry.claim() for entry in document.claims),
        reserved_cpus=document.reserved_cpus,
        strict_reservation=document.strict_reservation,
        policy=document.policy,
        pods_root=None if document.pods_root is None else canonical("/" + document.pods_root.strip("/")),
        transition_limit_ms=document.transition_limit_ms,
        noise_budget_ns_per_s=document.noise_budget_ns_per_s,
        reconcile_period_s=document.reconcile_period_s,
    )
    check_claims(claims, where)
    return claims


def check_claims(claims: ClaimSet, where: str) -> None:
    """Refuse claims that contradict each other.

    :raises InputError: no claims, a strict reservation of nothing, names or cgroups twice, exclusive sets that overlap,
        an exclusive claim without CPUs, paths with ``..``, names that cannot be printed or are those of our controls.
    """
    if not claims.claims:
        raise InputError(where, "no claims", "at least one")
    if claims.strict_reservation and not claims.reserved_cpus:
        raise InputError(where, "strictReservation without reservedCPUs", "the CPUs that no workload may run on")
    for what in ("name", "cgroup"):
        seen: set[str] = set()
        for claim in claims.claims:
            value = getattr(claim, what)
            if value in seen:
                raise InputError(where, f"{what} {value!r} twice", f"each {what} once")
            seen.add(value)
    owners: list[Claim] = []
    if claims.pods_root is not None and not _is_place(claims.pods_root):
        raise InputError(where, f"podsRoot {printable(claims.pods_root[:120])}", "a path below the cgroup root")
    for claim in claims.claims:
        if not claim.name.isprintable() or claim.name.startswith(OURS):
            raise InputError(
                where, f"claim name {claim.name[:80]!r}", f"printable characters, and not {OURS}... as our own controls"
            )
        if not _is_place(claim.cgroup):
            raise InputError(
                where, f"claim {claim.name!r}: cgroup {printable(claim.cgroup[:120])}", "a path below the cgroup root"
            )
        if claim.isolation is Isolation.CONTAINER:
            if not claim.cpus:
                raise InputError(where, f"claim {claim.name!r} is exclusive without cpus", "its CPU list")
            for other in owners:
                common = other.cpus & claim.cpus if other.cpus is not None else CpuSet()
                if common:
                    raise InputError(
                        where,
                        f"exclusive CPUs {common} claimed by both {other.name!r} and {claim.name!r}",
                        "disjoint exclusive sets",
                    )
            owners.append(claim)


def _is_place(cgroup: str) -> bool:
    """Return whether a path names one cgroup below the root, in the one way that it can be written."""
    path = raw(cgroup)
    return cgroup.isprintable() and b"\0" not in path and not {b"", b".", b".."} & set(path.strip(b"/").split(b"/"))


def load_claims(path: Path) -> ClaimSet:
    """Read a claims file; see :func:`parse_claims`."""
    return parse_claims(read_text(path, EXPECTED, MAX_BYTES), str(path))


def check_host(claims: ClaimSet, present: CpuSet, where: str) -> None:
    """Refuse claims on CPUs that this machine does not have (an offline CPU exists: that is for the rules to judge).

    :raises InputError: names the claim, its CPUs and those present.
    """
    for name, cpus in [("reservedCPUs", claims.reserved_cpus)] + [(c.name, c.cpus or CpuSet()) for c in claims.claims]:
        missing = cpus - present
        if missing:
            raise InputError(where, f"{name}: CPUs {missing} do not exist here", f"CPUs within {present}")
