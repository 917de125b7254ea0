"""The observer: claims in, evidence out. Watches every context switch, every thread's mask and every cgroup's CPU time.

Does not judge: what it returns says nothing about right or wrong beyond the arithmetic of sets. Calls may come from any
thread; everything that changes is changed under its lock. It calls the witnesses in the order of their list, gives each
itself, and knows none by name; :func:`probes.loaded.observing` makes it, with the threads that listen and read.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from probes.blindness import Blindness
from probes.build import build
from probes.options import ObserveOptions
from probes.programs import Side
from probes.readings import Frame, Readings, Watched, of_kind
from probes.subjects import ALL_CPUS, PodsRoot, Subject, Violation, check_place
from probes.switches.ledger import Ledger
from probes.switches.members import record_members, record_settled
from probes.switches.published import Bound, Published
from probes.switches.records import FOREVER_NS, PODS_IDENT
from probes.switches.trails import Trails
from probes.window import Window
from probes.witness import Edge, Witness
from toolkit.errors import InputError
from toolkit.host import cgroup_members, cgroup_mounts, cgroupfs, own_threads
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model import blind_spots
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Environment, Evidence, Transition
from toolkit.text import names

__all__ = ["Made", "ObserveOptions", "Observer", "Violation", "nohz_full"]

Kind = TypeVar("Kind", bound=Witness)


class Made(Protocol):
    """A class of witnesses: one is made for each observer, loaded and without a claim yet."""

    @property
    def SIDE(self) -> type[Side] | None:  # noqa: N802 - as :class:`probes.witness.Witness` has it
        """What it has in the kernel."""

    def __call__(self, observer: Observer, /) -> Witness:
        """Make it."""


class Observer:
    """Watches a node's claims; evidence is about one window at a time.

    :param ledger: loaded, or to be loaded before the first claim is added.
    :param on_violation: called with each violation as soon as it is reported.
    """

    hierarchy: Hierarchy

    def __init__(
        self,
        claims: ClaimSet,
        root: Path,
        ledger: Ledger,
        on_violation: Callable[[Violation], None] | None = None,
    ) -> None:
        self.claims, self.root = claims, root
        self.ledger = ledger
        self.options = self.ledger.options
        self.published = Published()
        patience_ns, joining_ns = (ms * 1_000_000 for ms in (self.options.pending_ms, self.options.joining_ms))
        self.trails = Trails(patience_ns, self.ledger.moving.begun_ns, joining_ns, self._at_home)
        self.subjects: dict[str, Subject] = {}
        self.names: dict[int, str] = {}
        self.pods: PodsRoot | None = None
        self.lock = threading.RLock()
        self.sampled = CpuSet()
        self._quiet = CpuSet()
        """CPUs that are left without one on purpose."""
        self._may_use = frozenset[int]()
        """Where our threads may run when it begins."""
        self.watched = CpuSet()
        self.blindness = Blindness()
        self.kept: KeptFiles = NONE_KEPT
        """Reads control files: while it observes, an observer's own, or that of what follows the node."""
        self.kept_counters: KeptFiles = NONE_KEPT
        """Reads counters, and lists of what is in a cgroup: an observer's own, each window once."""
        self.environment: Environment | None = None
        """The machine as what observes it knows it; a window keeps what it is when it opens. ``None``: the least."""

        self.witnesses: tuple[Witness, ...] = ()
        """From the one that reads first at an edge of a window to the one nearest to the ledger's moment."""
        self.window: Window | None = None
        self.closing: Window | None = None
        """The window before, until its evidence has been put together."""
        self.beside: tuple[Claim, ...] = ()
        """Claims of cgroups of which the files alone are read: nothing of theirs is in the ledger."""
        self._on_violation = on_violation
        self._found: SimpleQueue[Violation | None] = SimpleQueue()
        """What was reported and is not polled yet; ``None``: what polls shall return. No lock: a signal's handler may
        put something there while its own thread takes something out."""
        self._free = list(range(self.options.max_claims))

    def begin(self, witnesses: tuple[Witness, ...]) -> None:
        """Publish the claims that there are at first, when the programs are attached. :param witnesses: of this one."""
        self.witnesses = witnesses
        self._may_use = frozenset(os.sched_getaffinity(0))
        self.ledger.set_hierarchies({name: cgroup_mounts.v1_number(name, self.root) for name in cgroupfs.PROMISING})
        if self.claims.pods_root is not None:
            self.watch_pods(self.claims.pods_root)
        self._watch()
        for claim in self.claims.claims:
            self.add_claim(claim)
        self.start_sampler()

    def open_window(self) -> None:
        """Begin the judged window now; what was running is split at this moment on every CPU."""
        with self.lock:
            if self.window is not None and not self.window.closed:
                raise RuntimeError("a window is open already")
            self.poll()  # nothing has asked for what was reported before
            for subject in self.subjects.values():
                subject.epoch = 0
            self.published.forget_before(time.monotonic_ns())
            self.window = self._opened()

    def close_window(self) -> Evidence:
        """End the window now and return everything observed in it."""
        return build(self.end_window())

    def end_window(self) -> Readings:
        """End the window now and return what every witness read of it: evidence is built of that without a kernel."""
        window = self._window()
        self.catch_up()
        with self.lock:
            self.look()
            window.close()
        return self.read_ended(window)

    def turn_window(self) -> Window:
        """End the window now and open the next at the same moment; :meth:`finish` returns what the ended one saw.

        Nothing lies between the two and nothing is in both: every CPU goes over from one to the other, what runs there
        is split, and what was read of the kernel's counters is the end of one and the beginning of the other.

        :raises RuntimeError: a claim's CPUs are just being changed, or the window before has not been finished.
        """
        old = self._window()
        self.catch_up()
        with self.lock:
            if self.closing is not None or any(subject.changing for subject in self.subjects.values()):
                raise RuntimeError("the window before is not finished, or a claim is being changed")
            self.look()
            old.close()
            for subject in self.subjects.values():
                subject.epoch = 0
            # What the ended window still has to cut is judged by what bound then.
            self.published.forget_before(old.start_ns)
            self.closing, self.window = old, self._opened(old.last)
        return old

    def finish(self, window: Window) -> Evidence:
        """Wait for what was sent while a window was open that has ended, and return everything observed in it."""
        return build(self.read_ended(window))

    def read_ended(self, window: Window) -> Readings:
        """Like :meth:`finish`; returns what every witness read of the window."""
        for witness in self.witnesses:
            # Where a task was just being moved, the kernel's word may still be on its way.
            witness.wait_for(window)
        self.catch_up()  # a CPU that went or came just before the end may have been reported after it
        with self.lock:
            readings = self._readings(window)
            self.forget_old(window)
            window.release()
            self.closing = None
            if self.window is window:
                self.window = None
        return readings

    def snapshot(self) -> Evidence:
        """Return the evidence so far; the window stays open. Intervals that run now are counted to the last tick."""
        return build(self.read_so_far())

    def read_so_far(self) -> Readings:
        """Like :meth:`snapshot`; returns what every witness has read of the window so far."""
        with self.lock:
            return self._readings(self._window())

    def add_claim(self, claim: Claim) -> None:
        """Watch one more claim from now on. A claim inside another's cgroup is judged instead of the outer one."""
        check_place(claim)
        if claim.name in self.subjects:
            raise InputError(f"claim {claim.name}", "watched already", "a name of its own")
        number = cgroupfs.cgroup_id(self.hierarchy, claim.cgroup)
        legacy_ids = cgroupfs.legacy_ids(self.hierarchy, claim.cgroup)
        with self.lock:
            if number in [subject.cgroup_id for subject in self.subjects.values()]:
                raise InputError(f"claim {claim.name}", f"cgroup {claim.cgroup} has a claim already", "one claim")
            if not self._free:
                raise InputError("claims", f"more than {self.options.max_claims}", "fewer, or a larger max_claims")
            slot = self._free.pop(0)
            cpus = ALL_CPUS if claim.cpus is None else claim.cpus
            since = time.monotonic_ns()
            subject = Subject(
                claim=claim,
                cgroup_id=number,
                slot=slot,
                ident=self.ledger.new_ident(),
                cpus=cpus,
                since_ns=since,
                legacy_ids=legacy_ids,
                watched_ns=since,
            )
            self.publish(subject, cpus)
            for witness in self.witnesses:
                witness.claiming(subject)
            self.ledger.add_root(number, slot, subject.ident, legacy_ids)
            self.names[subject.ident] = claim.name
            self.subjects[claim.name] = subject
            self.found_members(subject)
            if subject.owns:
                self._watch()
            subject.checked_ns = since
            self.verify(subject)  # its cgroup may have been made anew since its id was read
            if self.window is not None:
                self.window.claim_added(subject, since)
                subject.epoch = self.window.live_again(subject)

    def remove_claim(self, name: str) -> None:
        """Stop watching a claim; what it did in the open window stays in the evidence."""
        with self.lock:
            subject = self.require(name)
            self.look()
            if self.window is not None:
                self.window.last_look(subject)
            start = time.monotonic_ns()
            for witness in self.witnesses:
                witness.unclaiming(subject)
            self.ledger.remove_root(subject.cgroup_id, subject.ident)
            self.ledger.forget_ident(subject.ident)
            if self.window is not None:
                self.window.claim_removed(subject, start)
            del self.subjects[name]
            self._watch()
            self.ledger.clear_slot(subject.slot)
            self._free.append(subject.slot)
            outer = self._around(subject)
            if outer is not None:
                self.found_members(outer)

    @contextmanager
    def changing(self, name: str, cpus: CpuSet, cause: str = "toolkit") -> Iterator[None]:
        """Let a claim's CPUs change: the caller writes the cgroup inside the block.

        While the block runs, CPUs of the old set are tolerated as transition; when it ends the new set binds at once,
        because the kernel has moved every task when the write returns (docs/facts.md K12). If the block raises, the old
        set binds again.
        """
        with self.lock:
            subject = self.require(name)
            before, start = subject.cpus, time.monotonic_ns()
            subject.changing, subject.next_cpus = True, cpus
            self._watch()
            self.publish(subject, cpus, before - cpus, FOREVER_NS)
        what, after = "mask-change", cpus
        try:
            yield
        except BaseException:
            what, after = "mask-change-failed", before
            raise
        finally:
            # When the write has returned the kernel has moved everything: the change ends here, before it is published.
            end = time.monotonic_ns()
            with self.lock:
                other = before if what == "mask-change" else cpus
                self.publish(subject, after, other - after, end)
                subject.cpus = after
                subject.epoch += 1
                subject.changing = False
                self._watch()
                if self.window is not None:
                    self.window.changed(subject, what, start, time.monotonic_ns(), before, after, cause)

    @contextmanager
    def restarting(self, name: str, cause: str = "toolkit") -> Iterator[None]:
        """Let a claim's tasks end and begin anew inside the block, in the same cgroup or in a new one of its name.

        A restart is a transition without CPU sets. Source: ``docs/facts.md`` section 5 point 5.

        :raises InputError: the claim is not watched, or its cgroup is gone when the block ends.
        """
        subject = self.require(name)
        start = time.monotonic_ns()
        with _made_by(subject, cause):
            yield
            with self.lock:
                if self.require(name) is not subject:
                    return
                self.look()
                self.verify(subject)
                cgroupfs.cgroup_id(self.hierarchy, subject.claim.cgroup)
                restart = Transition(claim=name, what="restart", start_at_ns=start, end_at_ns=0, cause=cause)
                if self.window is not None and not self.window.closed:
                    self.window.note(restart)

    @contextmanager
    def ending(self, name: str, cause: str = "toolkit") -> Iterator[None]:
        """Let a claim's tasks end inside the block, and the claim with them; its cgroup goes in the block or later.

        It is looked at a last time before the block.
        """
        subject, window = self.require(name), self.window
        if window is not None and not window.closed:
            for watch in window.watches.values():
                watch.ending(subject)
            self.read_last(name)
        with _made_by(subject, cause):
            yield
        self.remove_claim(name)

    def promise(self, claim: Claim) -> None:
        """Watch a claim by what it is promised from now on: a quota, a part of CPU time, memory nodes.

        Its cgroup, and whether it has CPUs and whose, are as before: CPUs change by :meth:`changing`. Nothing
        happens where no claim of this name is watched: of a cgroup that runs no tasks.
        """
        with self.lock:
            subject = self.subjects.get(claim.name)
            if subject is not None and subject.claim != claim:
                subject.claim = claim
                if self.window is not None:
                    self.window.promised(subject)

    def give_back(self, name: str, cpus: CpuSet, until_ns: int) -> None:
        """Let a claim's time on these CPUs of its set be a transition's until then (CLOCK_MONOTONIC), outside after it.

        It was promised them until a moment ago, and whatever promises is about to take them back.
        """
        with self.lock:
            subject = self.require(name)
            self.publish(subject, subject.cpus - cpus, cpus & subject.cpus, until_ns)

    def watch_pods(self, path: str) -> None:
        """Let everything below a cgroup that is under no claim be a foreign pod's from now on, in place of another.

        It need not exist yet: what is made under its name later counts from its first task on.
        """
        with self.lock:
            if self.pods is not None:
                for witness in self.witnesses:
                    witness.unclaiming_pods(self.pods)
                if self.pods.cgroup_id:
                    self.ledger.remove_root(self.pods.cgroup_id, PODS_IDENT)
            self.claims = replace(self.claims, pods_root=path)
            self.pods = pods = PodsRoot(path=path, checked_ns=time.monotonic_ns())
            for witness in self.witnesses:
                witness.claiming_pods(pods)
            self.publish_pods(pods)
            self.verify_pods()  # it may have been made anew since its id was read

    def watch_state_files(self, folder: Path) -> None:
        """Let it be known from now on what writes the state files of a kubelet, which are in this folder."""
        with self.lock:
            for witness in self.witnesses:
                witness.state_folder(folder)

    def read_last(self, name: str) -> None:
        """Read a claim's counters and control files now, because its cgroup is about to be deleted."""
        with self.lock:
            if self.window is not None and name in self.subjects:
                self.window.last_look(self.subjects[name])

    def poll(self, timeout_s: float = 0.0) -> tuple[Violation, ...]:
        """Return the violations reported since the last call; waits for the first, or for :meth:`wake`, at most
        ``timeout_s``.
        """
        found: list[Violation | None] = []
        try:
            if timeout_s > 0:
                found.append(self._found.get(timeout=timeout_s))
            while True:
                found.append(self._found.get_nowait())
        except Empty:
            return tuple(one for one in found if one is not None)

    def wake(self) -> None:
        """Let a poll return at once, or the next one; may be called by any thread or signal handler."""
        self._found.put(None)

    def report(self, violation: Violation) -> None:
        """Report a violation to whatever listens; not under the lock."""
        self._found.put(violation)
        if self._on_violation is not None:
            self._on_violation(violation)

    def blind(
        self, what: str, *witnesses: blind_spots.Witness, start_ns: int | None = None, end_ns: int | None = None
    ) -> None:
        """Note something that this run cannot see, and whose evidence is incomplete by it; it goes into the coverage.

        :param start_ns, end_ns: CLOCK_MONOTONIC; it concerns the windows of that time. ``None``: all.
        """
        self.blindness.note(what, witnesses, start_ns, end_ns)

    def sighted(self, what: str) -> None:
        """Note that what was noted without an end is seen again."""
        self.blindness.end(what, time.monotonic_ns())

    def require(self, name: str) -> Subject:
        """Return a watched claim."""
        if name not in self.subjects:
            raise InputError(f"claim {name}", "not watched", "one of " + ", ".join(sorted(self.subjects)))
        return self.subjects[name]

    def witness(self, kind: type[Kind]) -> Kind:
        """Return the witness of this kind.

        :raises KeyError: the observer was composed without it.
        """
        return of_kind(self.witnesses, kind)

    def live(self) -> tuple[Window, ...]:
        """Return the windows that still take something in, in their order: the one being finished, the open one."""
        return tuple(window for window in (self.closing, self.window) if window is not None)

    def catch_up(self) -> None:
        """Let every witness take note of what may still be under way; not under the lock."""
        for witness in self.witnesses:
            witness.catch_up()

    def look(self) -> None:
        """Let every witness take note of what the kernel has reported until now; under the lock."""
        for witness in self.witnesses:
            witness.look()

    def verify(self, subject: Subject) -> None:
        """Let every witness make sure that what it knows of a claim's cgroup is still so; under the lock."""
        for witness in self.witnesses:
            witness.verify(subject)

    def verify_pods(self) -> None:
        """Let every witness make sure that what it knows of the cgroup of all pods is still so; under the lock."""
        if self.pods is not None:
            for witness in self.witnesses:
                witness.verify_pods(self.pods)

    def publish(self, subject: Subject, cpus: CpuSet, grace: CpuSet = EMPTY, grace_until_ns: int = 0) -> None:
        """Let a claim's tasks be held to these CPUs from now on; parameters as for ``Ledger.publish``."""
        bound = Bound(
            at_ns=time.monotonic_ns(),
            cpus=cpus,
            since_ns=subject.since_ns,
            grace=grace,
            grace_until_ns=grace_until_ns,
        )
        self.published.claim(subject.ident, bound)
        self.ledger.publish(subject.slot, cpus, subject.since_ns, grace, grace_until_ns)

    def publish_pods(self, pods: PodsRoot) -> None:
        """Put the cgroup that all pods are in under no claim, if it exists: everything below it is a pod's."""
        try:
            pods.cgroup_id = cgroupfs.cgroup_id(self.hierarchy, pods.path)
        except InputError:
            return
        pods.legacy_ids, pods.gone = cgroupfs.legacy_ids(self.hierarchy, pods.path), False
        self.ledger.add_pods_root(pods.cgroup_id, pods.legacy_ids)
        tids = cgroupfs.tids(self.hierarchy, pods.path)
        if not record_members(self.ledger.threads, tids, PODS_IDENT, time.monotonic_ns()):
            self.ledger.members_lost += 1
        if "cpuset" in pods.legacy_ids:
            self._found_settled(pods.path)

    def found_members(self, subject: Subject, since_ns: int | None = None) -> None:
        """Write down which threads are in a claim's cgroup now; ``since_ns``: since the claim exists, unless given."""
        tids = cgroupfs.tids(self.hierarchy, subject.claim.cgroup)
        since_ns = subject.since_ns if since_ns is None else since_ns
        joining = frozenset[int]()
        if subject.cpuset_id is not None:
            mount = self.hierarchy.controller_dir("cpuset")
            joining = frozenset(tids) - (cgroup_members.tids_below(mount, subject.claim.cgroup) or frozenset())
            self._found_settled(subject.claim.cgroup)
        if not record_members(self.ledger.threads, tids, subject.ident, since_ns, joining):
            self.ledger.members_lost += 1

    def _found_settled(self, cgroup: str) -> None:
        """Write down which processes are in a v1 cpuset, or one below it, now."""
        by_cgroup = cgroup_members.pids_by_cgroup(self.hierarchy.controller_dir("cpuset"), cgroup)
        now_ns = time.monotonic_ns()
        if not record_settled(self.ledger.settled, by_cgroup, now_ns, now_ns + self.options.pending_ms * 1_000_000):
            self.ledger.members_lost += 1

    def cpu_came_online(self, cpu: int) -> None:
        """Bring a new CPU into the window and under the sampler."""
        with self.lock:
            self.ledger.adopt_cpu(cpu)
            self.ledger.forget_sampler(cpu)
            self.start_sampler()

    def start_sampler(self) -> None:
        """Put the sampler on every online CPU that is not quiet: on nohz_full CPUs where that was asked for."""
        asked = self._asked_quiet()
        self._quiet = quiet = asked if self.options.sample_nohz_full else asked | nohz_full(self.root)
        for cpu in self.sampled & quiet:
            self.ledger.forget_sampler(cpu)
        self.sampled = self.ledger.sample(self.ledger.online() - quiet)
        for window in self.live():
            window.quiet |= quiet
        if asked and (left := self._may_use - frozenset(asked)):
            own_threads.confine(left)

    def _asked_quiet(self) -> CpuSet:
        """Return the CPUs on which nothing of ours is wanted: those that were named, and those that a claim owns."""
        cpus = self.options.quiet_cpus
        if self.options.quiet_exclusive:
            cpus = cpus | CpuSet.union(subject.cpus for subject in self.subjects.values() if subject.owns)
        return cpus

    def forget_old(self, finished: Window) -> None:
        """Drop what belongs to windows before this one, whose evidence is put together; under the lock.

        A claim that this window watched is kept for one more: what is reported late still has its name.
        """
        for witness in self.witnesses:
            witness.forget_old()
        self.blindness.forget(finished.end_ns)
        kept = [*finished.all_subjects(), *self.subjects.values()]
        if self.window is not None:
            kept += self.window.all_subjects()
        idents = {subject.ident for subject in kept}
        self.names = {ident: name for ident, name in self.names.items() if ident in idents}
        self.published.keep(idents)

    def _window(self) -> Window:
        if self.window is None:
            raise RuntimeError("no window is open")
        return self.window

    def _opened(self, edge: Edge | None = None) -> Window:
        """Return a window that opens now, or at the edge at which the one before it has just been closed."""
        window = Window.open(self.ledger, self.subjects, self.witnesses, self.environment, edge)
        window.quiet = self._quiet
        return window

    def _readings(self, window: Window) -> Readings:
        """Return what is known of a window, closed or still open, as one value; called under the lock."""
        edge = window.end()
        found = [watch.read(edge) for watch in window.watches.values()]
        return Readings(self._frame(window, edge), tuple(reading for reading in found if reading is not None))

    def _frame(self, window: Window, edge: Edge) -> Frame:
        """Return what is known of a window besides the readings."""
        watched = [
            Watched(claim=subject.claim, ident=subject.ident, cpus=subject.cpus, present=present)
            for subjects, present in ((window.removed, False), (window.present(), True))
            for subject in subjects
        ]
        return Frame(
            number=window.number,
            started_at=window.started_at,
            first=window.first.moment,
            last=edge.moment,
            closed=window.closed,
            environment=window.environment or self._least_environment(),
            options=self.options,
            subjects=tuple(watched),
            names=dict(self.names),
            sampled=self.sampled - window.quiet,
            watched=self.watched,
            pods_root=self.claims.pods_root,
            transitions=tuple(window.transitions),
            spots=self.blindness.within(window.start_ns, edge.moment.at_ns),
        )

    def _least_environment(self) -> Environment:
        """Return what an observer knows of the machine by itself."""
        return Environment(
            kernel=os.uname().release,
            cgroup=self.hierarchy.mode.value,
            cmdline=names.from_text((read_control(self.root / "proc/cmdline") or "").strip()),
            cpus_online=self.ledger.online(),
            cpus_nohz_full=nohz_full(self.root),
        )

    def _around(self, subject: Subject) -> Subject | None:
        """Return the claim whose cgroup is the nearest above."""
        around = [
            other
            for other in self.subjects.values()
            if subject.claim.cgroup.startswith(other.claim.cgroup.rstrip("/") + "/")
        ]
        return max(around, key=lambda other: len(other.claim.cgroup), default=None)

    def _watch(self) -> None:
        """Record tasks without a claim on the CPUs that are exclusive or reserved now, from now on."""
        cpus = self.claims.reserved_cpus
        for subject in self.subjects.values():
            if subject.owns:
                cpus = cpus | (subject.cpus & subject.next_cpus if subject.changing else subject.cpus)
        if cpus != self.watched:
            # What runs on a CPU while it changes hands is cut here: only time after this is the new owner's.
            self.ledger.split()
            self.published.watch(cpus, time.monotonic_ns())
            self.ledger.watch(cpus)
            self.watched = cpus
            if self.options.quiet_exclusive:
                self.start_sampler()

    def _at_home(self, ident: int, cpu: int, at_ns: int) -> bool:
        bound = self.published.of(ident, at_ns)
        return bound is not None and cpu in bound.cpus


@contextmanager
def _made_by(subject: Subject, cause: str) -> Iterator[None]:
    subject.cause = cause
    try:
        yield
    finally:
        subject.cause = "host"


def nohz_full(root: Path) -> CpuSet:
    """Return the CPUs that run without a tick."""
    text = (read_control(root / "sys/devices/system/cpu/nohz_full") or "").strip()
    return CpuSet() if text in ("", "(null)") else CpuSet.parse(text, "nohz_full")
