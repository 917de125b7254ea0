"""Lines for people while a watch goes on: one per cause, never an end of reporting. Pure but for its sums.

What a line says is a difference of the counters, so it is complete whatever the kernel reported at once. The causes:
threads outside their CPUs, system tasks and tasks of other pods on exclusive CPUs, layers of the node that differ
(drift), limits and state files of a followed node that are not as they must be, a pool that still has CPUs that are
exclusive now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from toolkit.model.claim_changes import in_force
from toolkit.model.claims import ClaimSet, ExclusivePolicy
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence, OwnerClass
from toolkit.model.verdict import Offender, Outcome, Verdict
from toolkit.report.causes import causes
from toolkit.text.wording import brief, count, digits, first_of
from toolkit.timeline.ran import Asked, Ran, as_counted

TOP = 3
"""Tasks that are named on a line."""
FLOOR_NS = 1_000_000
"""System tasks that ran for less on a claim's CPUs, together, are not worth a line."""


@dataclass(slots=True)
class _Outside:
    """What a claim ran outside its set: on which CPUs, which threads."""

    ns: int = 0
    switches: int = 0
    cpus: set[int] = field(default_factory=set)
    threads: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Visitors:
    """Tasks of one class on the CPUs that a claim owns, by their names."""

    cpus: set[int] = field(default_factory=set)
    tasks_ns: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Pending:
    """What has happened since the last lines; of a window that is open only what a snapshot has shown."""

    outside: dict[str, _Outside] = field(default_factory=lambda: defaultdict(_Outside))
    visitors: dict[tuple[str, OwnerClass], _Visitors] = field(default_factory=lambda: defaultdict(_Visitors))
    differ: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    """Subject and rule -> how its layers differ, or what of it is wrong, by the last window that says so."""
    late: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Subject of the pool -> exclusive CPUs that it still had, and for how many milliseconds at the most."""
    _waiting: dict[tuple[str, OwnerClass], _Visitors] = field(default_factory=lambda: defaultdict(_Visitors))
    """The same of a window that is open, while it is not worth a line, or the window's end may excuse it."""
    _seen: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Claim and CPU -> what of it was taken."""
    _spent_ns: dict[tuple[int, int, str, int], int] = field(default_factory=dict)
    """CPU and task without a claim -> what of it was taken."""
    _owners: dict[int, str] | None = None
    """CPU -> what owned it when this window was looked at last; ``None``: it was not."""
    _window_ns: int = -1

    def take_new(self, evidence: Evidence) -> bool:
        """Take what is new in a window, open or ended; returns whether anything ran outside."""
        return self._take(evidence, map(as_counted, evidence.cpu_use), evidence.offenders)

    def _take(self, evidence: Evidence, rows: Iterable[Ran], offenders: Iterable[Offender]) -> bool:
        self._turn(evidence)
        new = False
        for row in rows:
            place, now = (row.claim, row.cpu), (row.out_ns, row.out_switches)
            old = self._seen.get(place, (0, 0))
            if now > old:
                new = True
                self._seen[place] = now
                found = self.outside[row.claim]
                found.ns += max(0, now[0] - old[0])
                found.switches += max(0, now[1] - old[1])
                found.cpus.add(row.cpu)
        for one in offenders:
            if one.claim in self.outside and one.cpu in self.outside[one.claim].cpus:
                self.outside[one.claim].threads.add(one.tid)
        return new

    def ended(
        self,
        claims: ClaimSet,
        evidence: Evidence,
        ran: Asked,
        layers: Iterable[Verdict] = (),
        kept: Iterable[Verdict] = (),
    ) -> None:
        """Take the rest of a window that has ended, and what ran on exclusive CPUs in it.

        With policy ``strict-isolation`` system tasks are violations, which verdicts name.

        :param ran: what ran in it, by the timeline.
        :param layers: verdicts about the layers, limits and state files of the node.
        :param kept: about what ran on CPUs of a claim: where one has passed, tasks of other pods broke nothing (a
            runtime that makes a container).
        """
        alone = {verdict.subject for verdict in kept if verdict.outcome is Outcome.PASSED}
        self._take(evidence, ran.rows, ran.offenders)
        self._visit(claims, evidence)
        for (owner, kind), visitors in self._waiting.items():
            if kind is not OwnerClass.FOREIGN_POD or owner not in alone:
                self._take_visitors(owner, kind, visitors)
        self._waiting.clear()
        for verdict in layers:
            if verdict.outcome is Outcome.FAILED:
                self.differ[verdict.subject, verdict.rule] = verdict
            elif "overlap_cpus" in verdict.measures:
                lasted_ms = float(verdict.measures.get("overlap_ms", 0))
                _, known_ms = self.late.get(verdict.subject, ("", 0.0))
                self.late[verdict.subject] = str(verdict.measures["overlap_cpus"]), max(lasted_ms, known_ms)

    def open_now(
        self, claims: ClaimSet, evidence: Evidence, faults: Iterable[Verdict] = (), broken: Container[str] = ()
    ) -> None:
        """Take what ran on exclusive CPUs so far in a window that is open, and what of the node is at fault.

        :param claims: as they were when it opened.
        :param faults: verdicts about the node that have failed, and that nothing will excuse.
        :param broken: claims on whose CPUs tasks of other pods have run, which nothing will excuse.
        """
        self._visit(claims, evidence)
        for owner, kind in list(self._waiting):
            system = kind is OwnerClass.SYSTEM
            if self._waiting[owner, kind].tasks_ns.total() >= FLOOR_NS if system else owner in broken:
                self._take_visitors(owner, kind, self._waiting.pop((owner, kind)))
        for verdict in faults:
            self.differ[verdict.subject, verdict.rule] = verdict

    def _turn(self, evidence: Evidence) -> None:
        """Begin anew if this is another window than the last one."""
        if evidence.start_monotonic_ns != self._window_ns:
            self._window_ns, self._seen, self._spent_ns = evidence.start_monotonic_ns, {}, {}
            self._owners = None
            self._waiting.clear()

    def _visit(self, claims: ClaimSet, evidence: Evidence) -> None:
        """Take what tasks without a claim ran since the last look on CPUs that had an owner then."""
        self._turn(evidence)
        owners = _owners_of(claims) if self._owners is None else self._owners
        named = {OwnerClass.FOREIGN_POD}
        if claims.policy is ExclusivePolicy.K8S:
            named.add(OwnerClass.SYSTEM)
        for row in evidence.intruders:
            task = (row.cpu, row.tid, row.comm, row.first_at_ns)
            ran_ns = row.total_ns - self._spent_ns.get(task, 0)
            self._spent_ns[task] = row.total_ns
            if row.cpu in owners and row.owner in named and ran_ns > 0:
                found = self._waiting[owners[row.cpu], row.owner]
                found.cpus.add(row.cpu)
                found.tasks_ns[row.comm] += ran_ns
        self._owners = _owners_of(in_force(claims, evidence.changed))

    def _take_visitors(self, owner: str, kind: OwnerClass, visitors: _Visitors) -> None:
        found = self.visitors[owner, kind]
        found.cpus |= visitors.cpus
        found.tasks_ns.update(visitors.tasks_ns)

    def lines(self) -> tuple[str, ...]:
        """Return the lines, and begin anew: ``be/main: 41 threads on CPUs 1,3-5, 12 ms outside its CPUs``."""
        found = []
        for claim, outside in sorted(self.outside.items()):
            threads = len(outside.threads)
            what = count(threads, "thread") if threads else count(outside.switches, "switch", "switches")
            found.append(f"{claim}: {what} on {_on(outside.cpus)}, {brief(outside.ns)} outside its CPUs")
        for (owner, kind), visitors in sorted(self.visitors.items()):
            if kind is OwnerClass.SYSTEM and visitors.tasks_ns.total() < FLOOR_NS:
                continue
            what = "system tasks" if kind is OwnerClass.SYSTEM else "tasks of other pods"
            found.append(f"{owner}: {what} on its {_on(visitors.cpus)}: {_named(visitors.tasks_ns)}")
        found += [
            f"{cause.head.subject}: {cause.head.reason}{cause.behind and ' '}{cause.behind}"
            for cause in causes(self.differ[key] for key in sorted(self.differ))
        ]
        for subject, (cpus, lasted_ms) in sorted(self.late.items()):
            found.append(
                f"{subject}: its pool still had CPUs {cpus}, exclusive to others, for {digits(lasted_ms / 1e3)} s"
            )
        for sums in (self.outside, self.visitors, self.differ, self.late):
            sums.clear()
        return tuple(found)


def _owners_of(claims: ClaimSet) -> dict[int, str]:
    owned = claims.exclusive_cpus  # of all claims, asked once: a node has hundreds
    return {
        cpu: claim.name
        for claim in claims.claims
        if claim.cpus is not None and claim.cpus <= owned
        for cpu in claim.cpus
    }


def _on(cpus: set[int]) -> str:
    return f"CPU{'s' if len(cpus) > 1 else ''} {CpuSet.of(cpus)}"


def _named(tasks_ns: Counter[str]) -> str:
    ranked = sorted(tasks_ns.items(), key=lambda entry: (-entry[1], entry[0]))
    return first_of([f"{comm} {brief(ns)}" for comm, ns in ranked], TOP)
