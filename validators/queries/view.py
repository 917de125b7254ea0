"""Evidence seen from one claim: grouping, the CPU set in force at each epoch, the owner of a CPU. No judgement.

Source: docs/principles.md ("Each claim has an epoch"), docs/facts.md K12.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from toolkit.model.blind_spots import NO_PROGRAMS, ScanGap, Witness
from toolkit.model.cgroup_manager import CgroupManager, systemd_wrote
from toolkit.model.claims import Claim, ClaimSet, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import BandwidthUse, CgroupFiles, Coverage, Evidence, Intruder, Transition
from toolkit.model.evidence.following import NOT_RECORDED
from toolkit.model.verdict import Measure, Offender
from toolkit.timeline.saved import set_changes
from validators.queries.memo import memoised

NANOSECONDS = 1_000_000_000
DEFAULT_HZ = 100
"""The slowest tick that Linux can be built with, assumed where the kernel does not report it."""


class _OfClaim(Protocol):
    @property
    def claim(self) -> str: ...


T = TypeVar("T", bound=_OfClaim)


def by_claim(rows: Iterable[T]) -> dict[str, list[T]]:
    """Group rows by the name of their claim. Those of evidence are grouped once: many rules ask."""
    return _grouped(rows) if isinstance(rows, tuple) else _by_claim(rows)


@memoised
def _grouped(rows: tuple[T, ...]) -> dict[str, list[T]]:
    return _by_claim(rows)


def _by_claim(rows: Iterable[T]) -> dict[str, list[T]]:
    groups: defaultdict[str, list[T]] = defaultdict(list)
    for row in rows:
        groups[row.claim].append(row)
    return dict(groups)


def tick_ns(evidence: Evidence) -> int:
    """Length of one timer tick."""
    return NANOSECONDS // (evidence.environment.hz or DEFAULT_HZ)


def steal_ns(evidence: Evidence) -> int:
    """Time that the hypervisor took, as it reports it; a counter that went backwards counts as nothing."""
    return max(0, evidence.steal_ns)


def stopped_ns(evidence: Evidence) -> int:
    """For how long the host stopped a CPU.

    The larger, not the sum: steal and a late timer may be one stop, seen from both sides.
    """
    return max((steal_ns(evidence), *(evidence.standstill_by_cpu_ns or {}).values()))


def kernel_switches(coverage: Coverage) -> tuple[int, int]:
    """Return the kernel's count of switches that is most likely the window's, and how far it may be off to both sides.

    It counts them for a time that holds the window and for one within it: the middle of both.
    """
    most, least, skew = coverage.switches_kernel, coverage.switches_kernel_least, max(0, coverage.switches_skew)
    if not 0 < least <= most:
        return most, skew
    return (least + most) // 2, max(0, skew - (most - least)) + (most - least + 1) // 2


def online(evidence: Evidence) -> CpuSet:
    """CPUs that were online at any time, by both readings of them."""
    return evidence.coverage.cpus_online | evidence.environment.cpus_online


def without_programs(evidence: Evidence) -> bool:
    """Whether nothing was loaded in the kernel, as a blind spot of the whole node says: there is no ledger to be
    compared with anything, and no control was planted. Evidence that has rows of a ledger is not believed in that.
    """
    coverage = evidence.coverage
    counted = coverage.switches_judged or evidence.cpu_use or evidence.usage_bins or evidence.canaries
    return not counted and any(
        spot.text.startswith(NO_PROGRAMS) and Witness.SWITCHES in spot.witnesses and spot.claim is None
        for spot in coverage.blindness
    )


def changes_of(claim: str, transitions: Iterable[Transition]) -> Sequence[Transition]:
    """Return what happened to a claim, in the order of the evidence: in a shared pool hundreds ask."""
    return by_claim(transitions).get(claim, ())


def mask_changes(claim: str, transitions: Iterable[Transition]) -> tuple[Transition, ...]:
    """Return the planned changes of the claim's CPU set, in order of time; not its making and its end."""
    changes = set_changes(changes_of(claim, transitions))
    return tuple(sorted(changes, key=lambda change: (change.end_at_ns, change.start_at_ns)))


def set_at_epoch(claim: Claim, changes: tuple[Transition, ...], epoch: int) -> CpuSet | None:
    """Return the CPU set promised after ``epoch`` complete changes; 0 is the start of the observation.

    The epoch says what was published when something was read: the time of a reading, and so the timeline, does not.
    """
    if not changes:
        return claim.cpus
    if epoch <= 0:
        return changes[0].cpus_before
    return changes[min(epoch, len(changes)) - 1].cpus_after


def ever_allowed(claim: Claim, changes: tuple[Transition, ...]) -> CpuSet:
    """Return every CPU that the claim had at some time of the observation."""
    cpus = claim.cpus or CpuSet()
    for change in changes:
        cpus = cpus | (change.cpus_before or CpuSet()) | (change.cpus_after or CpuSet())
    return cpus


def same_pod(one: Claim, other: Claim) -> bool:
    """Return whether two claims are of one pod; a claim that names no pod is a pod of its own.

    A pod that is made again under its name is another pod, which only its UID says.
    """
    if one.name == other.name:
        return True
    differ = "" not in (one.pod_uid, other.pod_uid) and one.pod_uid != other.pod_uid
    return one.pod != "" and one.pod == other.pod and not differ


def inside(inner: Claim, outer: Claim) -> bool:
    """Return whether a claim is about a descendant of another's cgroup: the ledger counts its tasks for it alone."""
    return inner.cgroup.startswith(outer.cgroup.rstrip("/") + "/") and inner.name != outer.name


def is_workload(claim: Claim) -> bool:
    """Return whether it is a pod's workload; pause sandboxes and runtime helpers are not pinned on healthy nodes."""
    return claim.kind in (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL)


def at_or_below(cgroup: str, top: str) -> bool:
    """Return whether a cgroup is another one or a descendant of it."""
    return (cgroup.rstrip("/") + "/").startswith(top.rstrip("/") + "/")


def claim_of_cgroup(claims: ClaimSet, cgroup: str) -> Claim | None:
    """Return the claim whose cgroup is nearest above ``cgroup``."""
    known, above = _claims_by_cgroup(claims), cgroup.rstrip("/")
    while above and above not in known:
        above = above.rpartition("/")[0]
    return known.get(above)


def claim_of_task(claims: ClaimSet, task: Intruder) -> Claim | None:
    """Return the claim of a task that has none by its v2 cgroup: that it left, or by its other cgroup."""
    if task.claim:
        return next((claim for claim in claims.claims if claim.name == task.claim), None)
    return claim_of_cgroup(claims, task.cgroup)


@memoised
def _claims_by_cgroup(claims: ClaimSet) -> dict[str, Claim]:
    """Return the claims by cgroup; of several about one the first."""
    return {claim.cgroup.rstrip("/"): claim for claim in reversed(claims.claims)}


def levels_of(claim: Claim, evidence: Evidence) -> list[BandwidthUse]:
    """Return a claim's bandwidth rows, its own level and those above.

    Cgroups that run no tasks themselves are read as ancestors of the claims below them: the rows of one such claim,
    from this level on.
    """
    own = list(_bandwidth_by_claim(evidence).get(claim.name, ()))
    if own or claim.kind.carries_tasks:
        return own
    read = bandwidth_by_cgroup(evidence).get(claim.cgroup)
    if not read:
        return []
    found = min(read, key=lambda row: (row.claim, row.level))
    above = [row for row in _bandwidth_by_claim(evidence)[found.claim] if row.level >= found.level]
    return [replace(row, claim=claim.name, level=row.level - found.level, bpf_usage_ns=None) for row in above]


def covered(claim: Claim, claims: ClaimSet) -> frozenset[str]:
    """Return the names of the claims whose tasks are in the claim's cgroup or below it: its own first of all."""
    return frozenset({claim.name, *nested(claims).get(claim.name, ())})


@memoised
def nested(claims: ClaimSet) -> dict[str, list[str]]:
    """Return the names of the claims in cgroups below each claim's own."""
    owners: dict[str, list[str]] = {}
    for claim in claims.claims:
        owners.setdefault(claim.cgroup.rstrip("/"), []).append(claim.name)
    found: dict[str, list[str]] = {}
    for claim in claims.claims:
        above = claim.cgroup.rstrip("/")
        while above:
            above = above.rpartition("/")[0]
            for owner in owners.get(above, ()):
                found.setdefault(owner, []).append(claim.name)
    return found


def level(rows: Iterable[BandwidthUse], wanted: int) -> BandwidthUse | None:
    """Return the bandwidth row of one level above the claim."""
    return next((row for row in rows if row.level == wanted), None)


def depth(claim: Claim) -> int:
    """Return how many cgroups lie on the way from the claim's own to below the root."""
    return len([part for part in claim.cgroup.split("/") if part])


def files_of(files: tuple[CgroupFiles, ...], cgroup: str) -> CgroupFiles | None:
    """Return the control files of one cgroup."""
    found = files_by_cgroup(files).get(cgroup.rstrip("/") or "/")
    return found[0] if found else None


@memoised
def files_by_cgroup(files: tuple[CgroupFiles, ...]) -> dict[str, list[CgroupFiles]]:
    """Group readings by cgroup."""
    groups: dict[str, list[CgroupFiles]] = {}
    for entry in files:
        groups.setdefault(entry.cgroup.rstrip("/") or "/", []).append(entry)
    return groups


def by_systemd(evidence: Evidence, cgroup: str) -> bool:
    """Return whether systemd wrote a cgroup's limits."""
    found = files_of(evidence.files_before, cgroup) or files_of(evidence.files_after, cgroup)
    return systemd_wrote(cgroup, CgroupManager.UNKNOWN if found is None else found.manager)


def older_word(claim: Claim, evidence: Evidence) -> str:
    """Return that the source may not know what its own tool has changed, where it says so itself."""
    missing = evidence.following.missing if evidence.following is not None else ()
    lines = (line.removeprefix(f"{claim.name}: ") for line in missing if line.startswith(f"{claim.name}: "))
    said = next((line for line in lines if NOT_RECORDED in line), None)
    return "" if said is None else f"; {said.partition(NOT_RECORDED)[0]}{NOT_RECORDED}"


def passing(claim: Claim, evidence: Evidence) -> bool:
    """Return whether a claim that is followed came or went in this window."""
    return evidence.following is not None and claim.name in _passing(evidence)


def passing_pod(claim: Claim, claims: ClaimSet, evidence: Evidence) -> bool:
    """Return whether a pod's own cgroup may have come or gone in this window: everything followed in its pod did."""
    inside = [one for one in claims.claims if one.pod == claim.pod and one.kind.carries_tasks]
    return claim.kind is SubjectKind.POD and bool(inside) and all(passing(one, evidence) for one in inside)


def uncounted_pod(claim: Claim, claims: ClaimSet, evidence: Evidence) -> bool:
    """Return whether a pod's own cgroup may have come or gone in this window, and its counters were not read twice."""
    own = level(levels_of(claim, evidence), 0)
    counted = own is not None and own.window_ns > 0 and own.nr_throttled is not None
    return not counted and passing_pod(claim, claims, evidence)


def between_scans(claim: Claim, evidence: Evidence) -> bool:
    """Return whether a claim came or went between two readings of its threads: or were long unread."""
    late = any(gap.longest_ns > gap.allowed_ns for gap in _gaps_by_claim(evidence).get(claim.name, ()))
    return passing(claim, evidence) and not late


@memoised
def _passing(evidence: Evidence) -> frozenset[str]:
    return frozenset(row.claim for row in evidence.transitions if row.what in ("claim-added", "claim-removed"))


@memoised
def _bandwidth_by_claim(evidence: Evidence) -> dict[str, list[BandwidthUse]]:
    return by_claim(evidence.bandwidth)


@memoised
def bandwidth_by_cgroup(evidence: Evidence) -> dict[str, list[BandwidthUse]]:
    """Group bandwidth rows by cgroup: one above hundreds of claims has a row of each."""
    groups: defaultdict[str, list[BandwidthUse]] = defaultdict(list)
    for row in evidence.bandwidth:
        groups[row.cgroup].append(row)
    return dict(groups)


@memoised
def _gaps_by_claim(evidence: Evidence) -> dict[str, list[ScanGap]]:
    return by_claim(evidence.coverage.scan_gaps)


def scan_measures(claim: Claim, evidence: Evidence) -> dict[str, Measure]:
    """Return how closely the claim's threads were looked at, where that was measured."""
    gaps = _gaps_by_claim(evidence).get(claim.name)
    if not gaps:
        return {}
    worst = max(gaps, key=lambda gap: gap.longest_ns)
    return {"longest_gap_ms": worst.longest_ns / 1e6, "longest_gap_at_ms": worst.at_ns / 1e6}


def scan_allowed_ns(claim: Claim, evidence: Evidence, default_ns: int) -> int:
    """Return for how long a thread of a claim may go unread. :param default_ns: where that was not measured."""
    gaps = _gaps_by_claim(evidence).get(claim.name, [])
    return max((gap.allowed_ns for gap in gaps), default=default_ns)


def sorted_offenders(offenders: Iterable[Offender]) -> tuple[Offender, ...]:
    """Order offenders by harm, then by name, so that the order of the evidence does not matter."""
    return tuple(
        sorted(offenders, key=lambda one: (-one.total_ns, -one.switches, one.claim, one.tid, one.cpu, one.first_at_ns))
    )
