"""Claims that come, change and go while windows follow each other: a source is read in a thread of its own, and what
it says is applied between two polls of the engine.

The subject is the claim's name, whatever its cgroup: one that restarts in another cgroup is the same subject, one that
is gone ends. Everything that changes while a window is open is a claim change in its evidence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from probes.cgroups.bandwidth import lineage
from probes.readings import Frame
from toolkit.errors import InputError
from toolkit.host.cgroup_mounts import Hierarchy
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import FOREVER_NS, OWING, Why
from toolkit.model.node_evidence import NodeEvidence
from toolkit.session.engine.observe import Observation
from toolkit.session.following.broken_files import BrokenFiles
from toolkit.session.following.layer_history import LayerHistory, granted
from toolkit.session.following.lives import Lives
from toolkit.session.following.source_reader import SourceReader
from toolkit.session.following.unread_parts import UnreadParts
from toolkit.session.following.unwatched_subjects import UnwatchedSubjects, is_there
from toolkit.sources.live_source import LiveSource, SourceReading

LISTED_S = 0.5
"""A runtime lists a container when it has made it, 0.3 s after its own processes entered the cgroup: a reading at once
does not know what began in the last moments of a window."""


class Follower:
    """Follow a source: :meth:`first` once, then a ``with`` block around the windows, with :meth:`apply_reading` in it
    again and again.

    :param hierarchy: where the node's cgroups are; ``None``: that is not known.
    :param report: called with one line for each subject that comes or goes.
    """

    def __init__(
        self, source: LiveSource, hierarchy: Hierarchy | None, report: Callable[[str], None] = lambda _line: None
    ) -> None:
        self._source, self._report = source, report
        self._history = LayerHistory(source.name)
        self._unwatched, self._unread = UnwatchedSubjects(report), UnreadParts(report)
        self._broken = BrokenFiles(report)
        self._base = ClaimSet(claims=())
        self._present: dict[str, Claim] = {}
        self._beside: tuple[Claim, ...] = ()
        """Claims of cgroups that run no tasks: their files are read as their children's ancestors."""
        self._beside_ns: dict[str, int] = {}
        """Since when each of these is among the claims, by cgroup (CLOCK_MONOTONIC)."""
        self._now = ClaimSet(claims=())
        """What :meth:`claims` says: replaced as a whole, because metrics ask from threads of their own."""
        self._reader = SourceReader(source, Lives(source.name, hierarchy), self._history)
        self._before_ns = self._applied_ns = 0
        """When the last two readings began that were applied and said what runs (CLOCK_MONOTONIC)."""
        self._read_ns = 0
        """When the last one began that was applied, whatever it said."""
        self._cgroups: frozenset[str] = frozenset()
        """All that the last reading that was applied named."""
        self._state_folder: Path | None = None
        self._lock = threading.Lock()

    def first(self) -> ClaimSet:
        """Read the source for the first time.

        :raises InputError: there is nothing to follow.
        """
        reading = self._reader.first()
        self._base, self._present = replace(reading.claims, claims=()), _lives(reading)
        self._beside = tuple(claim for claim in reading.claims.claims if not claim.kind.carries_tasks)
        self._publish()
        self._read_ns = self._reader.latest()[1]
        if reading.complete:  # what the next one gives beyond it was given since
            self._before_ns = self._applied_ns = self._read_ns
        return self._now

    def waking(self, wake: Callable[[], None]) -> Follower:
        """Call this whenever there is a reading to be applied, so that nothing need look for one again and again."""
        self._reader.wake = wake
        return self

    def __enter__(self) -> Follower:
        self._history.begin(time.monotonic_ns())
        self._report(f"following {len(self._present)} subjects of the {self._source.name}")
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.stop()

    def claims(self) -> ClaimSet:
        """Return what is promised now. May be called by any thread."""
        return self._now

    def _publish(self) -> None:
        above = {level for claim in self._present.values() for level in lineage(claim.cgroup)}  # all that is read
        beside = [claim for claim in self._beside if claim.cgroup in above]
        now_ns = time.monotonic_ns()
        self._beside_ns = {claim.cgroup: self._beside_ns.get(claim.cgroup, now_ns) for claim in beside}
        self._now = replace(self._base, claims=(*self._present.values(), *beside))

    def node_evidence(self, frame: Frame) -> NodeEvidence:
        """Return what the source stated during a window. May be called by any thread."""
        stated = self._history.node_evidence(frame.start_ns, frame.end_ns - frame.start_ns)
        assert stated.following is not None
        reading, latest_ns = self._reader.latest()
        with self._lock:
            last_ns, known = self._applied_ns, self._cgroups
        reading = reading if reading is not None and reading.complete else None
        later = {} if reading is None else _lives(reading)
        # What a reading that is not applied yet gives was given in the window, or a moment after it.
        given = ((name, more_of(self._present.get(name), claim)) for name, claim in later.items())
        since_ns, now_ns = last_ns - frame.start_ns, time.monotonic_ns() - frame.start_ns
        given_ns = since_ns - (0 if reading is None else int(reading.said_after_s * 1e9))
        late = (granted(name, cpus, given_ns, now_ns) for name, cpus in given if cpus)
        until_ns = last_ns if reading is None else latest_ns
        beside = () if reading is None else (one for one in reading.claims.claims if not one.kind.carries_tasks)
        anew = renewed(self._now, (*later.values(), *beside), now_ns)
        return replace(
            stated,
            following=replace(stated.following, last_reading_ns=since_ns, known_until_ns=until_ns - frame.start_ns),
            later=tuple(claim for claim in later.values() if claim.cgroup not in known),
            held=(*stated.held, *late),
            claim_changes=(*stated.claim_changes, *anew),
        )

    def knows(self, claim: str, cpu: int, at_ns: int) -> bool | None:
        """Say whether a CPU turned out to be a claim's own at that moment (CLOCK_MONOTONIC); ``None``: not read yet.

        May be called by the thread that applies readings.
        """
        if self._applied_ns <= at_ns:
            return None
        present, owed = self._present.get(claim), self._history.owing().get(claim)
        # What must be given back is in its set, and is no violation as long as it has time for it.
        back = CpuSet() if owed is None or owed.cpus is None else owed.cpus
        return present is not None and present.cpus is not None and cpu in present.cpus - back

    def ask(self) -> Callable[[], bool]:
        """Have the source read once more, in a moment; returns whether such a reading is over: ask again and again."""
        return self._reader.ask(LISTED_S)

    def apply_reading(self, opened: Observation) -> None:
        """Apply what was read since the last one that was applied; called between windows' ends only."""
        reading, began_ns = self._reader.latest()
        if reading is None:
            return  # the next claims are those of before: silence does not say that all have ended
        watched = opened.observer.subjects
        # One that is not listed may have ended since it was read: the kernel's word counts.
        over = {name for name in reading.unlisted if name in watched and watched[name].gone}
        wanted = {name: claim for name, claim in _lives(reading).items() if name not in over}
        lives = {name: claim for name, claim in self._present.items() if name in watched}
        for name, claim in lives.items():
            again = wanted.get(name)
            if again is None or again.cgroup != claim.cgroup:
                self._end(opened, name, restarts=again is not None)
        for name in [name for name in self._present if name not in watched]:
            del self._present[name]  # its cgroup was gone before it could be watched
        # Those that lose CPUs come first: nothing may be promised what another still has.
        # While the runtime does not answer the rest says less: silence does not say that a promise has changed.
        now = {name: claim for name, claim in wanted.items() if name in self._present}
        if not reading.complete:
            now = {name: pooled(self._present[name], claim) for name, claim in now.items()}
        changed = [name for name in now if now[name] != self._present[name]]
        moved = {name for name in changed if _set_of(now[name]) != _set_of(self._present[name])}
        for name in sorted(changed, key=lambda one: len(now[one].cpus or ()) - len(self._present[one].cpus or ())):
            before_ns = self._applied_ns if reading.complete else self._read_ns
            self._change(opened, now[name], before_ns - int(reading.said_after_s * 1e9))
        refused = {name: self._begin(opened, wanted[name]) for name in wanted if name not in self._present}
        why = {part.part: part.reason for part in reading.left_out}
        self._unread.note(reading.missing, why)
        self._broken.note(reading, began_ns)
        self._unwatched.note(why | {name: reason for name, reason in refused.items() if reason}, opened.observer)
        self._beside = tuple(claim for claim in reading.claims.claims if not claim.kind.carries_tasks)
        self._base = replace(reading.claims, claims=(), pods_root=self._root(opened, reading))
        if reading.state_folder not in (None, self._state_folder):
            opened.observer.watch_state_files(reading.state_folder)
            self._state_folder = reading.state_folder
        before = {claim.name: claim for claim in self._now.claims if not claim.kind.carries_tasks}
        self._publish()
        self._promise_beside(opened, before)
        self._give_back(opened, reading, moved)
        self._reader.applied(reading)
        with self._lock:
            self._read_ns = began_ns
            if reading.complete and began_ns != self._applied_ns:
                self._before_ns, self._applied_ns = self._applied_ns, began_ns
            self._cgroups = frozenset(claim.cgroup for claim in reading.claims.claims)

    def _promise_beside(self, opened: Observation, before: dict[str, Claim]) -> None:
        """Write down what is promised anew to a pod's own cgroup, or a class's, of which the window knows.

        :param before: what was promised to them. One that came in this window is judged in the next one.
        """
        opened.observer.beside = tuple(claim for claim in self._now.claims if not claim.kind.carries_tasks)
        window = opened.observer.window
        for claim in opened.observer.beside if window is not None else ():
            old = before.get(claim.name)
            known = old is not None and old != claim and old.cgroup == claim.cgroup
            if known and window is not None and self._beside_ns[claim.cgroup] < window.start_ns:
                self._promise(opened, claim)

    def _root(self, opened: Observation, reading: SourceReading) -> str | None:
        """Return where all pods are: published when it is known first, and kept while nothing says it."""
        before, now = self._base.pods_root, reading.claims.pods_root
        if now is None or now == before:
            return before
        opened.observer.watch_pods(now)
        self._report(f"pods are in {now}")
        return now

    def _end(self, opened: Observation, name: str, *, restarts: bool = False) -> None:
        if name in opened.observer.subjects:
            opened.observer.remove_claim(name)
        ended = self._present.pop(name)
        self._history.ended(name, ended.cgroup, time.monotonic_ns())
        if not restarts:
            self._report(f"{name} ended")

    def _begin(self, opened: Observation, claim: Claim) -> str:
        """Watch a claim from now on; returns why that cannot be. Empty: it is watched, or has vanished meanwhile."""
        reason = self._add(opened, claim)
        if reason is None:
            opened.promise(claim)
            self._present[claim.name] = claim
            self._report(f"{claim.name} began")
        return reason or ""

    def _add(self, opened: Observation, claim: Claim) -> str | None:
        """Add a claim; ``None``: done, else why not. Its cgroup has vanished: that is no reason worth a line."""
        try:
            opened.observer.add_claim(claim)
        except InputError as error:
            return f"{error.found}; expected {error.expected}" if is_there(opened.observer.hierarchy, claim) else ""
        return None

    def _change(self, opened: Observation, claim: Claim, since_ns: int) -> None:
        before = self._present[claim.name]
        if claim.cpus is None or before.cpus is None or claim.isolation is not before.isolation:
            if (claim.cpus, claim.isolation) != (before.cpus, before.isolation):
                # With or without CPUs, shared or its own: another kind of promise is another life in the ledger, or one
                # row would hold time that was judged and time that was not.
                opened.observer.remove_claim(claim.name)
                if self._add(opened, claim) is not None:
                    # What it did until now stays in the window; `apply_reading` tries again where its cgroup exists.
                    self._end(opened, claim.name)
                    return
        elif claim.cpus != before.cpus:
            if claim.isolation is Isolation.CONTAINER:  # no kubelet gives an owner that runs other CPUs by itself
                self._report(f"{claim.name}: its own CPUs are {claim.cpus} now, they were {before.cpus}")
            with opened.observer.changing(claim.name, claim.cpus, self._source.name):
                pass  # whatever changed it has written it
            if more := more_of(before, claim):
                self._history.granted(claim.name, more, self._had_not(claim.name, more, since_ns), time.monotonic_ns())
        self._present[claim.name] = claim
        self._promise(opened, claim)

    def _promise(self, opened: Observation, claim: Claim) -> None:
        """Write down what a claim, or a cgroup that runs no tasks, is promised anew."""
        self._history.renewed(claim, time.monotonic_ns())
        opened.promise(claim)

    def _had_not(self, name: str, cpus: CpuSet, since_ns: int) -> int:
        """Return when it is known last that a claim had not got these CPUs yet: at the reading before this one, or at
        the one before that if the runtime was not asked about it there, because its layers had agreed until then.
        """
        asked_ns = self._history.last_asked_without(name, cpus)
        return since_ns if asked_ns is None or asked_ns >= since_ns else min(since_ns, max(asked_ns, self._before_ns))

    def _give_back(self, opened: Observation, reading: SourceReading, moved: Collection[str]) -> None:
        """Let time on CPUs that must be given back be a transition's.

        :param moved: whose set is another one now, so that the observer knows nothing of what was owed before.
        """
        now_ns, before = time.monotonic_ns(), self._history.owing()
        said = {row.claim: row for row in reading.held if row.why in OWING}
        for name, row in said.items():
            if name not in self._present or not row.cpus:
                continue
            within_s = 0.0 if row.why is Why.TAKEN else reading.give_back_s
            known = Why.OWED is row.why and row.from_ns > -FOREVER_NS
            since_ns = min(now_ns, row.from_ns) if known else now_ns
            owed = self._history.owes(replace(row, from_ns=since_ns), within_s, now_ns)
            if owed.due_ns is not None and (owed != before.get(name) or name in moved):
                opened.observer.give_back(name, row.cpus, owed.due_ns)
        for name in before.keys() - said.keys():
            if name in opened.observer.subjects and name not in moved:
                opened.observer.give_back(name, CpuSet(), 0)  # Its set has not changed: all of it is its own again.
            self._history.gave_back(name, now_ns)


def _lives(reading: SourceReading) -> dict[str, Claim]:
    """Return by name what runs tasks: the rest is judged by its files, as their ancestors."""
    return {claim.name: claim for claim in reading.claims.claims if claim.kind.carries_tasks}


def _set_of(claim: Claim) -> tuple[object, ...]:
    return claim.cpus, claim.isolation


def pooled(before: Claim, now: Claim) -> Claim:
    """Return a claim as it was, with the CPUs of the shared pool as they are: its source knows these by itself."""
    shared = before.isolation is now.isolation is Isolation.HOST
    known = before.cpus is not None and now.cpus is not None
    return replace(before, cpus=now.cpus) if shared and known else before


def more_of(before: Claim | None, now: Claim) -> CpuSet:
    """Return the CPUs that a claim has got; none if it is new, or was or is without any."""
    if before is None or before.cpus is None or now.cpus is None or before.isolation is not now.isolation:
        return CpuSet()
    return now.cpus - before.cpus


def renewed(present: ClaimSet, later: Iterable[Claim], at_ns: int) -> Iterator[ClaimChange]:
    """Yield what a later reading promises anew to those that are present. :param at_ns: when it was read."""
    known = {claim.name: claim for claim in present.claims}
    for claim in later:
        before = known.get(claim.name)
        if before is not None and before != claim and before.cgroup == claim.cgroup:
            yield ClaimChange(at_ns=at_ns, claim=claim)
