"""The claims file: what a user, another tool, or an Ansible play writes (``apiVersion: pinproof/v1, kind: Claims``).

Keys are camelCase as in Kubernetes files; :mod:`toolkit.model.claims` is what they become. Source: docs/principles.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from toolkit.errors import InputError
from toolkit.kubernetes.documents import check_kind
from toolkit.model.claims import (
    NO_QUOTA,
    Alignment,
    AssignedDevice,
    Claim,
    ClaimSet,
    DeviceScope,
    ExclusivePolicy,
    HugepageLimit,
    Isolation,
    Preference,
    SubjectKind,
)
from toolkit.model.cpu_units import MAX_SHARES, MAX_WEIGHT, MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.serde import first_place, first_problem, read_text
from toolkit.text.names import canonical, printable, raw
from toolkit.text.yaml_text import MAX_BYTES, parse_document

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


def _about(text: str, **more: Any) -> Any:
    """Return a field with what it means, its unit and what may stand there: the schema, the page and errors say it."""
    return Field(description=text, **more)


class _Quota(_Entry):
    quota_us: int = _about("CPU time for each period, in microseconds, at least 1000", ge=1000, le=MAX_NUMBER)
    period_us: int = _about("the period, in microseconds, 1000 to 1000000", default=100_000, ge=1000, le=1_000_000)
    burst_us: int = _about(
        "time that may be saved up (`cpu.max.burst`), in microseconds", default=0, ge=0, le=MAX_NUMBER
    )


class _AssignedDevice(_Entry):
    id: str = _about("the plugin's name of the device, or DRA's `driver/pool/device`", min_length=1)
    resource: str = _about("resource of the device plugin, such as `intel.com/sriov`", default="")
    claim: str = _about("claim of DRA, as `namespace/name`", default="")
    numa_nodes: CpuList = _about("list of the NUMA nodes that its plugin states", default=CpuSet())
    cdi: tuple[str, ...] = _about("list of its names for the runtime (CDI)", default=())
    aligned: DeviceScope | None = _about(
        "with whose CPUs and memory it must share a NUMA node: `container` or `pod`", default=None
    )

    def device(self) -> AssignedDevice:
        return AssignedDevice(
            id=self.id,
            resource=self.resource,
            claim=self.claim,
            numa_nodes=tuple(self.numa_nodes),
            cdi=self.cdi,
            aligned=self.aligned,
        )


class _Claim(_Entry):
    name: Annotated[str, StringConstraints(min_length=1, max_length=253)] = _about(
        "the claim's name in verdicts, once in the file; not `pinproof-...`"
    )
    cgroup: Annotated[str, StringConstraints(min_length=2, max_length=4096)] = _about(
        "path below the cgroup root (`/sys/fs/cgroup`, of v1 below each controller), once in the file; what lies below "
        "it is covered, too"
    )
    pod: str = _about("the pod's name: containers of one pod are not foreign to each other", default="")
    namespace: str = _about("the pod's namespace, where it is one of Kubernetes: a label of metrics", default="")
    pod_uid: str = _about("the pod's UID, as its cgroup has it", default="", alias="podUID")
    container: str = _about("the container's name; empty: `name`", default="")
    kind: SubjectKind = _about(
        "what kind of cgroup it is: `container`, `sandbox` (a pause container), `ephemeral`, `helper`, `pod` or `qos`; "
        "the last two carry no tasks of their own, only limits",
        default=SubjectKind.CONTAINER,
    )
    cpus: CpuList | None = _about("list of the CPUs on which its tasks may run, such as `2-5,8`", default=None)
    by_mask: bool = _about(
        "whether its threads' masks alone hold it to its CPUs (`CPUAffinity=`), and no cpuset: `true` or `false`",
        default=False,
    )
    requested_cpus: CpuList | None = _about(
        "list of the CPUs that its own cpuset asks for, where cgroups above leave it less; not stated: `cpus`",
        default=None,
    )
    requested_mems: CpuList | None = _about(
        "list of the NUMA nodes that its own cpuset asks for; not stated: `mems`", default=None
    )
    isolation: Isolation = _about(
        "what may share its CPUs: `container` (nothing; needs `cpus`), `pod` (its pod's containers) or `host` (the "
        "node's shared pool)",
        default=Isolation.HOST,
    )
    mems: CpuList | None = _about("list of the NUMA nodes on which its memory may lie, such as `0`", default=None)
    quota: Literal["none"] | _Quota | None = _about(
        "CPU time: `none` (it has no CFS quota), or a mapping of `quotaUs`, `periodUs` and `burstUs`, such as "
        "`{quotaUs: 50000, periodUs: 100000}` for half a CPU",
        default=None,
    )
    weight: int | None = _about("`cpu.weight` (v2), a number of 1 to 10000", default=None, ge=1, le=MAX_WEIGHT)
    shares: int | None = _about(
        "`cpu.shares` (v1), a number of 2 to 262144", default=None, ge=MIN_SHARES, le=MAX_SHARES
    )
    memory_bytes: Literal["none"] | Bytes | None = _about(
        "limit of memory: a number of bytes, or `none` (it has no limit)", default=None
    )
    memory_high_bytes: Literal["none"] | Bytes | None = _about(
        "the least that `memory.high` (v2) may be: a number of bytes, or `none` (it must be `max`)", default=None
    )
    hugepages: dict[PageBytes, Bytes] = _about(
        "limits of huge pages: a mapping of page sizes to limits, both in bytes, such as `{2097152: 4194304}`",
        default_factory=dict,
    )
    alignments: tuple[Alignment, ...] = _about(
        "list of what is guaranteed about where its CPUs lie: " + ", ".join(f"`{one}`" for one in Alignment), default=()
    )
    preferences: tuple[Preference, ...] = _about(
        "list of what is preferred, and reported only: " + ", ".join(f"`{one}`" for one in Preference), default=()
    )
    max_numa_nodes: int | None = _about(
        "the most NUMA nodes on which its CPUs may lie, 1 to 1024", default=None, ge=1, le=1024
    )
    devices: tuple[str, ...] = _about("list of PCI addresses (`0000:81:00.0`) that it was given", default=())
    pinned_by: str = _about(
        "the program beside the kubelet whose word its CPUs are, such as `NRI balloons`", default=""
    )
    assigned_devices: tuple[_AssignedDevice, ...] = _about(
        "list of devices that a kubelet gave it: mappings of `id`, `resource` or `claim`, `numaNodes` (a list such as "
        "`0`), `cdi`, and `aligned` (`container` or `pod`: with whose CPUs and memory it must share a node)",
        default=(),
    )
    demand_cpus: float | None = _about(
        "CPUs' worth of work that it offers: whether it reaches its quota is judged by that", default=None, ge=0
    )

    def claim(self) -> Claim:
        quota = self.quota if isinstance(self.quota, _Quota) else None
        return Claim(
            name=self.name,
            cgroup="/" + canonical(self.cgroup.strip("/")),
            pod=self.pod,
            namespace=self.namespace,
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
            memory_high_bytes=NO_LIMIT if self.memory_high_bytes == "none" else self.memory_high_bytes,
            hugepages=tuple(HugepageLimit(page_bytes=p, limit_bytes=n) for p, n in sorted(self.hugepages.items())),
            alignments=self.alignments,
            preferences=self.preferences,
            max_numa_nodes=self.max_numa_nodes,
            devices=self.devices,
            pinned_by=self.pinned_by,
            assigned_devices=tuple(one.device() for one in self.assigned_devices),
            demand_cpus=self.demand_cpus,
        )


class ClaimsDocument(BaseModel):
    """The file as it is written; its JSON Schema ships with pinproof."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    api_version: Literal["pinproof/v1"] = _about("`pinproof/v1`", alias="apiVersion")
    kind: Literal["Claims"] = _about("`Claims`")
    reserved_cpus: CpuList = _about(
        "list of the CPUs that are the system's, such as `0-1`", default=CpuSet(), alias="reservedCPUs"
    )
    strict_reservation: bool = _about(
        "whether no workload may run on them: `true` or `false`", default=False, alias="strictReservation"
    )
    policy: ExclusivePolicy = _about(
        "what may run on exclusive CPUs beside their owner: `k8s` (no other pod; system tasks are noise) or "
        "`strict-isolation` (nothing but per-CPU kernel threads)",
        default=ExclusivePolicy.K8S,
    )
    pods_root: str | None = _about(
        "cgroup below which everything is a pod, such as `/kubepods`: what has no claim there is a foreign pod",
        default=None,
        alias="podsRoot",
    )
    transition_limit_ms: float | None = _about(
        "how long a change of a claim may take until it holds, in milliseconds; not stated: it is measured only",
        default=None,
        ge=0,
        alias="transitionLimitMs",
    )
    noise_budget_ns_per_s: int | None = _about(
        "time of others on each exclusive CPU, in nanoseconds for each second; not stated: it is measured only",
        default=None,
        ge=0,
        alias="noiseBudgetNsPerS",
    )
    reconcile_period_s: float | None = _about(
        "the kubelet's reconcile period, within which its layers may differ, in seconds; not stated: none may",
        default=None,
        gt=0,
        alias="reconcilePeriodS",
    )
    claims: tuple[_Claim, ...] = _about(f"list of the claims, 1 to {MAX_CLAIMS}", max_length=MAX_CLAIMS)


FILE_FIELDS: dict[str, type[BaseModel]] = {"file": ClaimsDocument, "claims[]": _Claim, "quota": _Quota}
"""What has keys, by where it stands."""


_INNER: dict[str, type[BaseModel]] = {"claims": _Claim, "quota": _Quota}


def _refused(error: ValidationError, data: object) -> tuple[str, str]:
    """Return what is wrong, with the claim's name, and what is expected in that place."""
    problem = first_problem(error)
    place = [str(part) for part in first_place(error)]
    claims = data.get("claims") if isinstance(data, dict) else None
    at = int(place[1]) if len(place) > 1 and place[0] == "claims" and place[1].isdigit() else None
    name = ""
    if at is not None and isinstance(claims, list) and at < len(claims) and isinstance(claims[at], dict):
        name = printable(str(claims[at].get("name") or "")[:80])
    found = f"claim {name!r}: {problem}" if name else problem
    model: type[BaseModel] = ClaimsDocument
    expected = EXPECTED
    for part in place:
        fields = {field.alias or key: field for key, field in model.model_fields.items()}
        if part in fields:
            expected = f"{part}: {fields[part].description}"
            model = _INNER.get(part, model)
        elif not part.isdigit() and part == place[-1]:
            expected = f"one of {', '.join(fields)}"
    return found, expected


def parse_claims(text: str, where: str) -> ClaimSet:
    """Read a claims document.

    :raises InputError: one line that names the place, what was found and what was expected.
    """
    data = parse_document(text, where, decimal_but=frozenset())
    check_kind(data, "Claims", where, EXPECTED)
    try:
        document = ClaimsDocument.model_validate(data)
    except ValidationError as error:
        found, expected = _refused(error, data)
        raise InputError(where, found, expected) from None
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
