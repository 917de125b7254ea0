"""Tasks other than the owners' that ran on a set of CPUs: shared by ``exclusive-cpus`` and ``reserved-cpus``.

Takes the ledger's rows of claims and the intruders (tasks without a claim), and sorts their time by kind. Time of a
transition is left out. It says what was seen; the rules say whether it was allowed.
Source: docs/principles.md; docs/facts.md K9, K13, K-kubelet-8; docs/facts.md, "Normal on a healthy node".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolkit.model.cgroup_manager import KUBEPODS
from toolkit.model.claim_changes import versions
from toolkit.model.claims import Claim, ClaimSet, ExclusivePolicy, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.held import Held as Row
from toolkit.model.held import Span
from toolkit.model.measures import Better, Kind, amounts, gated
from toolkit.model.verdict import Measure, Offender
from toolkit.text.wording import NOT_NAMED
from toolkit.timeline.ran import Ran
from validators.intruders import being_made, placing, possession
from validators.queries import by_cpu, leaves, timeline, view
from validators.queries.memo import memoised
from validators.wording import listed, milliseconds

UNCLAIMED = "(no claim)"
NO_POD_KNOWN = "tasks without a claim"
"""What system tasks are called where no pods root was given: one of them may be a pod's."""


NO_PODS_ROOT = " (no pods root given: a task without a claim may be a pod's)"

SEEN = (
    *amounts("foreign_workload_ns", "unknown_ns", "sandbox_ns", "excused_ns", better=Better.LESS),
    *gated("system_ns", Kind.AMOUNT, Better.LESS, relative=1.0, absolute=2_000_000),
    *gated("kthread_ns", Kind.AMOUNT, Better.LESS, relative=1.0, absolute=2_000_000),
    *amounts("percpu_kthread_ns", "toolkit_ns", "canaries_ns"),
)
"""The measures of what ran on CPUs beside their owners."""


@dataclass(slots=True)
class ForeignUse:
    """Time on the watched CPUs of tasks that do not own them, by kind, with the stays behind it."""

    workload: list[Offender] = field(default_factory=list)
    """Tasks of claimed containers that do not own the CPU."""
    infra: list[Offender] = field(default_factory=list)
    """Pause sandboxes and runtime helpers: never pinned on a healthy node."""
    unclaimed: dict[OwnerClass, list[Offender]] = field(default_factory=dict)
    """Tasks without a claim."""
    blurred: list[str] = field(default_factory=list)
    """What cannot be attributed."""
    owners: set[str] = field(default_factory=set)
    """Claims that own a CPU of the set, and whose tasks were seen to run there."""
    canaries_ns: int = 0
    """Time of pinproof's own controls, where every CPU has an owner and they had to run on one of these."""
    excused_ns: dict[str, int] = field(default_factory=dict)
    """By claim that does not own the CPU: time there that breaks no promise (it started or moved, or had the CPU)."""
    had_ns: dict[str, int] = field(default_factory=dict)
    """The same of claims that have the CPU when the window ends, and never had it while the owner did."""

    def of(self, *owners: OwnerClass) -> list[Offender]:
        """Return the stays of unclaimed tasks of these classes."""
        return [stay for owner in owners for stay in self.unclaimed.get(owner, [])]

    def measures(self) -> dict[str, Measure]:
        """Return the time of every kind."""
        return {
            "foreign_workload_ns": total_ns([*self.workload, *self.of(OwnerClass.FOREIGN_POD)]),
            "sandbox_ns": total_ns(self.infra),
            "system_ns": total_ns(self.of(OwnerClass.SYSTEM)),
            "kthread_ns": total_ns(self.of(OwnerClass.KTHREAD)),
            "percpu_kthread_ns": total_ns(self.of(OwnerClass.PERCPU_KTHREAD)),
            "toolkit_ns": total_ns(self.of(OwnerClass.TOOLKIT)),
            "unknown_ns": total_ns(self.of(OwnerClass.UNKNOWN)),
            "canaries_ns": self.canaries_ns,
            "excused_ns": sum(self.excused_ns.values()) + sum(self.had_ns.values()),
        }

    def excused(self) -> list[str]:
        """Name the time of claims that broke nothing, a phrase each."""
        return [
            f"{milliseconds(ns)} of `{name}` {when}"
            for times, when in (
                (self.excused_ns, "before its present set held"),
                (self.had_ns, "while the CPU was not the owner's"),
            )
            for name, ns in sorted(times.items())
            if ns
        ]

    def hosted(self, *, pods_known: bool) -> str:
        """Return what ran there: ``hosted only `db` and 0.6 ms of kernel threads``. The one naming of these classes.

        :param pods_known: whether a pod without a claim would have been distinguished from a system task.
        """
        kernel = self.of(OwnerClass.KTHREAD, OwnerClass.PERCPU_KTHREAD)
        others = (
            (total_ns(kernel), "kernel threads"),
            (total_ns(self.of(OwnerClass.SYSTEM)), "system tasks" if pods_known else NO_POD_KNOWN),
            (total_ns(self.infra), "pause sandboxes and runtime helpers"),
            (total_ns(self.of(OwnerClass.TOOLKIT)), "pinproof itself"),
            (self.canaries_ns, "pinproof's canaries"),
        )
        parts = [f"`{name}`" for name in sorted(self.owners)]
        parts += [f"{milliseconds(ns)} of {kind}" for ns, kind in others if ns]
        parts += self.excused()
        return f"hosted only {listed(parts)}" if parts else "hosted no task"


def total_ns(stays: list[Offender]) -> int:
    """Sum the time of stays."""
    return sum(stay.total_ns for stay in stays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Whose the CPUs are, and when.

    :param owner: a claim that had a CPU only before or after it did is not foreign there.
    :param spans: by CPU: when it was the owner's. What came after the last of them breaks nothing; what came between
        two, or before the first, may have stayed. None at all: time of others is not dated.
    :param gained: CPUs that changed hands during the observation: time of others there cannot be dated.
    :param through: by CPU: those through which it is the owner's, where it is not by itself.
    """

    owner: Claim
    spans: Mapping[int, Sequence[Span]]
    gained: CpuSet
    through: Mapping[int, CpuSet] = field(default_factory=dict)


def foreign_use(
    claims: ClaimSet, evidence: Evidence, cpus: CpuSet, is_owner: Callable[[Claim, int], bool], held: Held | None = None
) -> ForeignUse:
    """Collect the tasks that ran on ``cpus`` without owning the CPU.

    :param held: ``None``: the CPUs never change hands, so all time counts.
    """
    by_name, details = _by_name(claims), _details(evidence)
    found = ForeignUse(canaries_ns=sum(max(0, one.run_ns) for one in evidence.canaries if one.cpu in cpus))
    rows, tasks = by_cpu.rows_of(evidence), by_cpu.tasks_of(evidence)
    for row in sorted((row for cpu in cpus for row in rows.get(cpu, ())), key=lambda row: (row.claim, row.cpu)):
        claim = by_name.get(row.claim)
        if not _ran(row):
            _in_transition(found, claim, row, is_owner)
        elif claim is None:
            found.blurred.append(f"{row.claim}, which is not among the claims, ran on CPU {row.cpu}")
        elif is_owner(claim, row.cpu):
            found.owners.add(claim.name)
        else:
            _claimed(found, claims, evidence, claim, row, details.get(claim.name, []), held)
    owner = None if held is None else held.owner
    starts = being_made.starts_of(claims, evidence)
    for intruder in (row for cpu in cpus for row in tasks.get(cpu, ())):
        spans = possession.ALWAYS if held is None else held.spans.get(intruder.cpu, ())
        inside = placing.was_inside(spans, intruder.first_at_ns, intruder.total_ns, evidence.duration_ns)
        if inside is False:
            continue
        name, doubt = starts.excuse(intruder, owner, is_owner)
        if not (doubt or name):
            intruder = replace(intruder, owner=leaves.owner_of(intruder, claims, evidence))
            doubt = (
                _undated(claims, intruder, owner)
                if inside is None
                else _in_change(claims, evidence, intruder, is_owner)
            )
        if doubt:
            found.blurred.append(doubt)
        elif name:
            _excuse(found, name, intruder.total_ns)
        else:
            _unclaimed(found, claims, intruder, is_owner)
    return found


@memoised
def _by_name(claims: ClaimSet) -> dict[str, Claim]:
    return {claim.name: claim for claim in claims.claims}


@memoised
def _details(evidence: Evidence) -> dict[str, list[Offender]]:
    return view.by_claim(timeline.asked(evidence).offenders)


def _undated(claims: ClaimSet, intruder: Intruder, owner: Claim | None) -> str:
    """Return why the time of a task counts neither for nor against anything; empty: its kind breaks no promise."""
    breaks = {OwnerClass.FOREIGN_POD, OwnerClass.CLAIM}
    if claims.policy is ExclusivePolicy.STRICT_ISOLATION:
        breaks |= {OwnerClass.SYSTEM, OwnerClass.KTHREAD}
    claim = view.claim_of_task(claims, intruder) if intruder.owner is OwnerClass.CLAIM else None
    if intruder.owner not in breaks or (claim is not None and owner is not None and claim.name == owner.name):
        return ""
    whose = f" while it was not `{owner.name}`'s" if owner else ""
    return f"{intruder.comm} ({intruder.tid}) came to CPU {intruder.cpu}{whose}, and may have stayed"


def _in_change(claims: ClaimSet, evidence: Evidence, intruder: Intruder, is_owner: Callable[[Claim, int], bool]) -> str:
    """Return why the time of a claim's task that has no row of its own is not known to be foreign: the claim had the
    CPU until a change of the window, or is giving it back. The ledger dates changes of those that have the identity.
    """
    claim = view.claim_of_task(claims, intruder) if intruder.owner is OwnerClass.CLAIM else None
    if claim is None or is_owner(claim, intruder.cpu):
        return ""
    changes = view.mask_changes(claim.name, evidence.transitions)
    ends_ns = [one.end_at_ns for one in changes if intruder.cpu in (one.cpus_before or CpuSet())]
    ends_ns += [row.due_ns or 0 for row in _owing(claim, intruder.cpu, evidence)]
    if all(end_ns <= intruder.first_at_ns for end_ns in ends_ns):
        return ""
    return f"{intruder.comm} ({intruder.tid}) of {claim.name} ran on CPU {intruder.cpu}, which changed hands meanwhile"


def _owing(claim: Claim, cpu: int, evidence: Evidence) -> list[Row]:
    """Return the rows by which a claim has to give a CPU back."""
    return [row for row in view.by_claim(timeline.owed(evidence)).get(claim.name, ()) if cpu in (row.cpus or ())]


def _ran(row: Ran) -> bool:
    return bool(any(row.steady) or row.out_samples)


def _in_transition(found: ForeignUse, claim: Claim | None, row: Ran, is_owner: Callable[[Claim, int], bool]) -> None:
    """Note time that belongs to a transition as a whole: it breaks no promise, but it was spent there."""
    if not (row.row.switches or row.row.run_ns or row.row.samples):
        return
    if claim is not None and is_owner(claim, row.cpu):
        found.owners.add(claim.name)
    else:
        _excuse(found, row.claim, row.row.run_ns)


def _excuse(found: ForeignUse, name: str, ns: int, *, had: bool = False) -> None:
    times = found.had_ns if had else found.excused_ns
    times[name] = times.get(name, 0) + max(0, ns)


def _claimed(
    found: ForeignUse,
    claims: ClaimSet,
    evidence: Evidence,
    claim: Claim,
    row: Ran,
    details: list[Offender],
    held: Held | None,
) -> None:
    """Add a claim's time on a CPU that is not its own."""
    had, changed, apart = CpuSet(), CpuSet(), False
    if held is not None:
        had = _had(claims, evidence, claim, held)
        through, owned = held.through.get(row.cpu), held.spans.get(row.cpu) or possession.ALWAYS
        apart = possession.apart(held.owner, claim, row.cpu, evidence.transitions, through, owned)
        # A pause sandbox is noise whenever it ran: nothing needs to be dated.
        dated = view.is_workload(claim) or claims.policy is ExclusivePolicy.STRICT_ISOLATION
        changed = held.gained if dated else changed
    # A pool that had the CPU before: its time there is a transition's until the bound, and outside after it.
    alone = apart or bool(_owing(claim, row.cpu, evidence))
    allowed = claim.cpus is None or row.cpu in claim.cpus
    switches, ns = row.steady
    undated = f"{claim.name} ran on CPU {row.cpu}, which changed hands while we watched"
    if alone or (not allowed and row.cpu in had):
        # It had the CPU at another time than the owner: only what came outside of that was judged as outside.
        switches, ns = row.out_switches, row.out_ns
    elif allowed and row.cpu in changed:
        found.blurred.append(undated)
        return
    if not (switches or ns or row.out_samples):
        _excuse(found, claim.name, row.row.run_ns, had=apart and allowed)
        return
    _excuse(found, claim.name, row.row.run_ns - ns, had=apart and allowed)
    known = [stay for stay in details if stay.cpu == row.cpu]
    rest_ns = ns - sum(stay.total_ns for stay in known)
    rest_switches = switches - sum(stay.switches for stay in known)
    rest = None
    if not known or rest_ns > 0 or rest_switches > 0:
        rest = Offender(
            claim=claim.name,
            tid=0,
            comm=NOT_NAMED,
            cpu=row.cpu,
            first_at_ns=0,
            total_ns=max(0, rest_ns),
            longest_ns=0 if known else row.out_longest_ns,
            switches=max(0, rest_switches),
        )
    stays = known if rest is None else [*known, rest]
    spans = held.spans.get(row.cpu) if held is not None and row.cpu in changed else None
    if spans and placing.outside_ns(spans, 0, evidence.duration_ns):
        stays, unknown = placing.stays_inside(known, rest, spans, evidence.duration_ns)
        if unknown:
            found.blurred.append(undated)
    (found.workload if view.is_workload(claim) else found.infra).extend(stays)


def _had(claims: ClaimSet, evidence: Evidence, claim: Claim, held: Held) -> CpuSet:
    """Return the CPUs that a claim was promised at some time. A container of the owner's pod may have shared them in
    another life.
    """
    had = view.ever_allowed(claim, view.mask_changes(claim.name, evidence.transitions))
    if not view.same_pod(held.owner, claim):
        return had
    lives = (one.claim for one in versions(claims, claim))
    return had | CpuSet.union(one.cpus for one in lives if one.cpus is not None and one.isolation is not Isolation.HOST)


def _of_a_kubelet(cgroup: str) -> bool:
    return any(name in KUBEPODS for name in cgroup.split("/"))


def _unclaimed(found: ForeignUse, claims: ClaimSet, intruder: Intruder, is_owner: Callable[[Claim, int], bool]) -> None:
    stay = Offender(
        claim=intruder.claim if intruder.owner is OwnerClass.CLAIM and intruder.claim else UNCLAIMED,
        tid=intruder.tid,
        comm=intruder.comm,
        cpu=intruder.cpu,
        first_at_ns=intruder.first_at_ns,
        total_ns=intruder.total_ns,
        longest_ns=intruder.longest_ns,
        switches=intruder.switches,
    )
    owner = intruder.owner
    if owner is OwnerClass.CLAIM:
        claim = view.claim_of_task(claims, intruder)
        if claim is not None:
            if is_owner(claim, intruder.cpu):
                found.owners.add(claim.name)
            else:
                (found.workload if view.is_workload(claim) else found.infra).append(stay)
            return
        owner = OwnerClass.UNKNOWN
    elif owner is OwnerClass.SYSTEM and claims.pods_root is None and _of_a_kubelet(intruder.cgroup):
        owner = OwnerClass.UNKNOWN  # whose pods those are was not said: the claims' own, or strangers
    found.unclaimed.setdefault(owner, []).append(stay)
