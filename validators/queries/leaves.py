"""Tasks that left a claim's cgroup, or all pods, without ending: which leaves count, and whose such tasks are since.

A task that is moved out has the claim's promises no more, and keeps its work: where it runs is still the claim's doing.
A runtime comes and goes, and no claim is broken by that. Two things show it, and no name of the moved task does:

- what moved it is a runtime or a service manager, by its name, and is itself a part of the host: in no pod, and in no
  claim but a service's of the host;
- it had come from outside, and leaves with the program that it came with (a visit): what a claim's container runs was
  executed inside. Of a visit what a runtime needs is excused: with more CPU time on CPUs that are watched it is none.

Source: kernel/cgroup/cgroup.c (``cgroup_attach_task``); docs/facts.md, "Normal on a healthy node".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from toolkit.model.actions import CgroupMove
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.runtimes import INIT_NS, MOVERS
from validators.queries import view, writers
from validators.queries.memo import memoised

V2 = "v2"
PATH_BYTES = 127
"""A cgroup's name of so many bytes may be cut."""
_HOST_ENDS, _HOST_BEGINS = ".service", "session-"
_BINDS: Mapping[str, tuple[Witness, ...]] = {
    V2: (Witness.SWITCHES, Witness.MASKS, Witness.BANDWIDTH, Witness.SLOTS),
    "cpu": (Witness.BANDWIDTH, Witness.FILES),
    "cpuset": (Witness.MASKS,),
    "memory": (Witness.FILES,),
}
"""What is doubtful when a task left, by hierarchy: what is promised there did not hold it."""


def of(claim: Claim, claims: ClaimSet, evidence: Evidence) -> tuple[CgroupMove, ...]:
    """Return the leaves of a workload's tasks from its v2 cgroup that are findings, in order of time."""
    if not view.is_workload(claim):
        return ()
    return tuple(move for move in _leaves(evidence).get(claim.name, ()) if _counts(move, claim, claims, evidence))


def owner_of(row: Intruder, claims: ClaimSet, evidence: Evidence) -> OwnerClass:
    """Return the class of a task as it is judged: one that a runtime moved is of no pod any more."""
    if not row.left:
        return row.owner
    move = _left_by(row, evidence)
    if move is None:
        return row.owner if row.visit else OwnerClass.UNKNOWN
    if move.visit:
        kept = _visited_ns(evidence)[row.claim, row.left] <= INIT_NS
        return row.owner if kept else OwnerClass.CLAIM if row.claim else OwnerClass.FOREIGN_POD
    return OwnerClass.SYSTEM if _by_runtime(move, claims) else row.owner


def told(moves: tuple[CgroupMove, ...], evidence: Evidence, *, where: str = "its cgroup") -> str:
    """Say what left, for where, by what and when, for a sentence."""
    one = moves[0]
    tids = {move.tid for move in moves}
    task = writers.named(one.comm, one.pid, tid=one.tid)
    if one.born:
        text = f"{task} was born outside of {where} {writers.by(evidence, one.writer_comm, one.writer_pid, one.at_ns)}"
    else:
        to = one.cgroup or "another cgroup"
        itself = one.writer_pid == one.pid
        author = (
            f"by itself {writers.when(evidence, one.at_ns)}"
            if itself
            else (f"moved {writers.by(evidence, one.writer_comm, one.writer_pid, one.at_ns, tid=one.writer_tid)}")
        )
        text = f"{task} left {where} for {to}{'' if one.hierarchy == V2 else f' of {one.hierarchy}'}, {author}"
    if len(moves) == 1:
        return text
    others = f", {len(tids)} tasks" if len(tids) > 1 else ""
    return f"{text} ({len(moves)} times{others})"


def elsewhere_ns(claim: Claim, claims: ClaimSet, evidence: Evidence) -> int:
    """Return what those that left a claim, and what they bore since, ran on watched CPUs."""
    rows = _rows_left(evidence).get(claim.name, ())
    return sum(row.total_ns for row in rows if owner_of(row, claims, evidence) is OwnerClass.CLAIM)


def doubts(claims: ClaimSet, evidence: Evidence) -> Iterator[tuple[Claim, str, tuple[Witness, ...]]]:
    """Yield each claim with a task that left where something is promised, why, and what is doubtful because of it."""
    for claim in claims.claims:
        by_place: dict[str, list[CgroupMove]] = {}
        for move in (*_leaves(evidence).get(claim.name, ()), *_legacy_leaves(evidence).get(claim.name, ())):
            for place in promised(claim) & frozenset(move.hierarchy.split(",")):
                if view.is_workload(claim) and _counts(move, claim, claims, evidence):
                    by_place.setdefault(place, []).append(move)
        for place, moves in sorted(by_place.items()):
            what = "its cgroup" if place == V2 else f"the cgroup of {claim.name} in the v1 hierarchy"
            yield (
                claim,
                f"{told(tuple(moves), evidence, where=what)}: what it was promised did not hold it",
                _BINDS[place],
            )


def promised(claim: Claim) -> frozenset[str]:
    """Return the controllers of which a claim promises something, and the v2 hierarchy, where its identity is."""
    cpu = claim.exclusive or any(value is not None for value in (claim.quota_us, claim.weight, claim.shares))
    wanted = {V2: True, "cpu": cpu, "cpuset": claim.cpus is not None, "memory": claim.memory_bytes is not None}
    return frozenset(name for name, holds in wanted.items() if holds)


@memoised
def _leaves(evidence: Evidence) -> dict[str, list[CgroupMove]]:
    return _by_claim(move for move in (*evidence.left_before, *evidence.cgroup_moves) if move.hierarchy == V2)


@memoised
def _legacy_leaves(evidence: Evidence) -> dict[str, list[CgroupMove]]:
    return _by_claim(move for move in evidence.cgroup_moves if move.hierarchy != V2)


def _by_claim(moves: Iterator[CgroupMove]) -> dict[str, list[CgroupMove]]:
    found: defaultdict[str, list[CgroupMove]] = defaultdict(list)
    for move in moves:
        if move.leaves:
            found["" if move.from_pods else move.from_claim].append(move)
    return dict(found)


@memoised
def _rows_left(evidence: Evidence) -> dict[str, list[Intruder]]:
    found: defaultdict[str, list[Intruder]] = defaultdict(list)
    for row in evidence.intruders:
        if row.left:
            found[row.claim].append(row)
    return dict(found)


def _counts(move: CgroupMove, claim: Claim, claims: ClaimSet, evidence: Evidence) -> bool:
    if _stays_below(move, claim, claims):
        return False
    if move.visit:
        return _visited_ns(evidence)[claim.name, move.tid] > INIT_NS
    return not _by_runtime(move, claims)


def _stays_below(move: CgroupMove, claim: Claim, claims: ClaimSet) -> bool:
    """A claim about a descendant is a closer look at tasks that are its own."""
    if not any(name != claim.name for name in view.covered(claim, claims)):
        return False
    top = claim.cgroup.rstrip("/") + "/"
    return view.at_or_below(move.cgroup, claim.cgroup) or (
        len(move.cgroup.encode()) >= PATH_BYTES and top.startswith(move.cgroup)
    )


def _by_runtime(move: CgroupMove, claims: ClaimSet) -> bool:
    if move.writer_in_pods or move.writer_comm not in MOVERS:
        return False
    return not move.writer_claim or any(one.name == move.writer_claim and _of_host(one) for one in claims.claims)


def _of_host(claim: Claim) -> bool:
    name = claim.cgroup.rstrip("/").rpartition("/")[2]
    return not claim.pod and (name.endswith(_HOST_ENDS) or name.startswith(_HOST_BEGINS))


def _left_by(row: Intruder, evidence: Evidence) -> CgroupMove | None:
    """Return the leave that a task, or whose it was born, is known by: the last one before it ran there."""
    moves = [move for move in _leaves(evidence).get(row.claim, ()) if move.tid == row.left]
    before = [move for move in moves if move.at_ns <= row.first_at_ns]
    return before[-1] if before else moves[0] if moves else None


@memoised
def _visited_ns(evidence: Evidence) -> Counter[tuple[str, int]]:
    """Return by claim and thread what visitors ran on watched CPUs after they had left."""
    found: Counter[tuple[str, int]] = Counter()
    for row in evidence.intruders:
        if row.visit:
            found[row.claim, row.left] += row.total_ns
    return found
