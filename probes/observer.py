"""The observer: claims in, evidence out. Watches every context switch, every thread's mask and every cgroup's CPU time.

Does not judge: what it returns says who ran where for how long, how complete that is, and nothing about right or wrong
beyond the arithmetic of sets. Calls may come from any thread; two threads of its own do the listening.

Longer than 300 lines: one object that owns the lock over all its parts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from probes import gather, lifecycle, loaded
from probes.blindness import Blindness
from probes.file_reader import FileReader
from probes.identity import Identities
from probes.ledger import Ledger
from probes.listener import Listener
from probes.members import drop_dead, record_members
from probes.options import ObserveOptions
from probes.owners import CgroupNames
from probes.published import Bound, Published
from probes.records import EVENT_OUTSIDE, EVENT_PIECE, FOREVER_NS, PODS_IDENT, Detail, MoveEvent, Piece, comm
from probes.subjects import ALL_CPUS, Subject, Violation, check_place
from probes.trails import Trails
from probes.window import Window
from toolkit.errors import InputError
from toolkit.host import cgroup_mounts, cgroupfs
from toolkit.host.hotplug import HotplugMonitor
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import Claim, ClaimSet, Isolation
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Evidence, Transition

__all__ = ["ObserveOptions", "Observer", "Violation"]


class Observer:
    """Watches a node's claims from ``__enter__`` to ``__exit__``; evidence is about one window inside at a time.

    :param ledger: loaded already, by :func:`probes.loaded.loaded`: observers that use it one after the other compile
        nothing and know nothing of each other. ``None``: this observer loads one for itself.
    :raises HostUnsupportedError: pure cgroup v1, no root, no BPF, no BTF, no bcc.
    :raises InputError: a claim's cgroup does not exist, or is the root.
    """

    def __init__(
        self,
        claims: ClaimSet,
        *,
        root: Path = Path("/"),
        options: ObserveOptions | None = None,
        on_violation: Callable[[Violation], None] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        if ledger is not None and options not in (None, ledger.options):
            raise ValueError("the programs were compiled for other options")
        self.claims, self.root = claims, root
        self._borrowed = ledger is not None
        self.ledger = ledger or Ledger(root, options or ObserveOptions())
        self.options = self.ledger.options
        self.trails = Trails(self.options.pending_ms * 1_000_000)
        self.published = Published()
        self.subjects: dict[str, Subject] = {}
        self.names: dict[int, str] = {}
        self.lock = threading.RLock()
        self.window: Window | None = None
        self.closing: Window | None = None
        """The window before, until its evidence has been put together."""
        self.sampled = CpuSet()
        self.watched = CpuSet()
        self.blindness = Blindness()
        self._on_violation = on_violation
        self._found: deque[Violation] = deque()
        self._news = threading.Condition()
        self._pieces: deque[Piece] = deque()
        self._heard: dict[int, list[Piece]] = {}
        """Pieces by window; of two windows one after the other they come mixed, each CPU telling its own."""
        self.identities = Identities(self)
        self._free = list(range(self.options.max_claims))
        self._stack = ExitStack()

    def __enter__(self) -> Observer:
        """Load and attach the programs, publish the claims, start listening."""
        self.hierarchy = loaded.unified_hierarchy(self.root)
        assert self.hierarchy.unified is not None
        for claim in self.claims.claims:  # before anything is compiled
            check_place(claim)
        self.cgroups = CgroupNames(self.hierarchy.unified)
        with ExitStack() as stack:
            if not self._borrowed:
                stack.enter_context(loaded.attached(self.ledger))
            stack.enter_context(self.ledger.lent(self._event))
            self._publish_node()
            self._watch()
            for claim in self.claims.claims:
                self.add_claim(claim)
            self._start_sampler()
            self.presence = lifecycle.Presence(self.ledger.online())
            self.hotplug = stack.enter_context(HotplugMonitor(root=self.root))
            stack.enter_context(Listener(self))
            stack.enter_context(FileReader(self))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop listening, detach and free everything."""
        self._stack.close()

    def open_window(self) -> None:
        """Begin the judged window now; what was running is split at this moment on every CPU."""
        with self.lock:
            if self.window is not None and not self.window.closed:
                raise RuntimeError("a window is open already")
            with self._news:
                self._found.clear()
            for subject in self.subjects.values():
                subject.epoch = 0
            self.published.forget_before(time.monotonic_ns())
            self.window = Window.open(self)

    def close_window(self) -> Evidence:
        """End the window now and return everything observed in it."""
        window = self._window()
        lifecycle.last_look_for_cpus(self)
        with self.lock:
            self.identities.look()
            window.close()
        return self.finish(window)

    def turn_window(self) -> Window:
        """End the window now and open the next at the same moment; :meth:`finish` returns what the ended one saw.

        Nothing lies between the two and nothing is in both: every CPU goes over from one to the other, what runs there
        is split, and what was read of the kernel's counters is the end of one and the beginning of the other.

        :raises RuntimeError: a claim's CPUs are just being changed, or the window before has not been finished.
        """
        old = self._window()
        lifecycle.last_look_for_cpus(self)
        with self.lock:
            if self.closing is not None or any(subject.changing for subject in self.subjects.values()):
                raise RuntimeError("the window before is not finished, or a claim is being changed")
            self.identities.look()
            old.close()
            for subject in self.subjects.values():
                subject.epoch = 0
            # What the ended window still has to cut is judged by what bound then.
            self.published.forget_before(old.start_ns)
            self.closing, self.window = old, Window.open(self, old.last)
        return old

    def finish(self, window: Window) -> Evidence:
        """Wait for what was sent while a window was open that has ended, and return everything observed in it."""
        # Where a task was just being moved, the kernel's word may still be on its way. However long the counting took:
        # the patience begins when it has ended.
        window.wait_for_events()
        lifecycle.last_look_for_cpus(self)  # one that went or came just before the end may have been told after it
        with self.lock:
            evidence = gather.evidence(self, window)
            window.drop_old_entries()
            self.blindness.forget(window.end().at_ns)
            self.closing = None
            if self.window is window:
                self.window = None
        return evidence

    def live(self) -> tuple[Window, ...]:
        """Return the windows that still take something in, in their order: the one being finished, the open one."""
        return tuple(window for window in (self.closing, self.window) if window is not None)

    def snapshot(self) -> Evidence:
        """Return the evidence so far; the window stays open. Intervals that run now are counted to the last tick."""
        with self.lock:
            return gather.evidence(self, self._window())

    def poll(self, timeout_s: float = 0.0) -> tuple[Violation, ...]:
        """Return the violations reported since the last call; waits for the first at most ``timeout_s``."""
        with self._news:
            if not self._found and timeout_s > 0:
                self._news.wait_for(lambda: bool(self._found), timeout_s)
            found = tuple(self._found)
            self._found.clear()
        return found

    def violations(self) -> tuple[Violation, ...]:
        """Return the violations reported since the last call, without waiting."""
        return self.poll()

    def add_claim(self, claim: Claim) -> None:
        """Watch one more claim from now on. A claim inside another's cgroup is judged instead of the outer one."""
        check_place(claim)
        if claim.name in self.subjects:
            raise InputError(f"claim {claim.name}", "watched already", "a name of its own")
        number = cgroupfs.cgroup_id(self.hierarchy, claim.cgroup)
        cpuset_id = cgroupfs.cpuset_id(self.hierarchy, claim.cgroup)
        with self.lock:
            if any(subject.cgroup_id == number for subject in self.subjects.values()):
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
                cpuset_id=cpuset_id,
                watched_ns=since,
            )
            self.publish(subject, cpus)
            self.ledger.claimed.claim(claim.cgroup, slot, subject.ident, in_cpuset=cpuset_id is not None)
            self.ledger.add_root(number, slot, subject.ident, cpuset_id)
            self.names[subject.ident] = claim.name
            self.subjects[claim.name] = subject
            self.found_members(subject)
            self._watch()
            subject.checked_ns = since
            self.identities.verify(subject)  # it may have been made anew since its id was read
            if self.window is not None:
                self.window.claim_added(subject, since)

    def remove_claim(self, name: str) -> None:
        """Stop watching a claim; what it did in the open window stays in the evidence."""
        with self.lock:
            subject = self.require(name)
            self.identities.look()
            if self.window is not None:
                self.window.last_look(subject)
            start = time.monotonic_ns()
            self.ledger.claimed.forget(subject.claim.cgroup)
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

    def found_members(self, subject: Subject, since_ns: int | None = None) -> None:
        """Write down which threads are in a claim's cgroup now; ``since_ns``: since the claim exists, unless given."""
        tids = cgroupfs.tids(self.hierarchy, subject.claim.cgroup)
        since_ns = subject.since_ns if since_ns is None else since_ns
        if not record_members(self.ledger.threads, tids, subject.ident, since_ns):
            self.ledger.members_lost += 1

    def publish(self, subject: Subject, cpus: CpuSet, grace: CpuSet = EMPTY, grace_until_ns: int = 0) -> None:
        """Let a claim's tasks be held to these CPUs from now on; parameters of :meth:`probes.ledger.Ledger.publish`."""
        bound = Bound(
            at_ns=time.monotonic_ns(),
            cpus=cpus,
            since_ns=subject.since_ns,
            grace=grace,
            grace_until_ns=grace_until_ns,
        )
        self.published.claim(subject.ident, bound)
        self.ledger.publish(subject.slot, cpus, subject.since_ns, grace, grace_until_ns)

    def _around(self, subject: Subject) -> Subject | None:
        """Return the claim whose cgroup is the nearest above."""
        around = [
            other
            for other in self.subjects.values()
            if subject.claim.cgroup.startswith(other.claim.cgroup.rstrip("/") + "/")
        ]
        return max(around, key=lambda other: len(other.claim.cgroup), default=None)

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
            # When the write has returned the kernel has moved everybody, so the change ends here, before we tell.
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

    def restarting(self, name: str, cause: str = "toolkit") -> AbstractContextManager[None]:
        """Let a claim's tasks end and begin anew inside the block, in the same cgroup or in a new one of its name."""
        self.require(name)
        return lifecycle.restarting(self, name, cause)

    def ending(self, name: str, cause: str = "toolkit") -> AbstractContextManager[None]:
        """Let a claim's tasks end inside the block, and the claim with them; its cgroup goes in the block or later."""
        self.require(name)
        return lifecycle.ending(self, name, cause)

    def read_last(self, name: str) -> None:
        """Read a claim's counters and control files now, because its cgroup is about to be deleted."""
        with self.lock:
            if self.window is not None and name in self.subjects:
                self.window.last_look(self.subjects[name])

    def record_transition(self, transition: Transition) -> None:
        """Add a transition that somebody else saw (times relative to the window)."""
        if self.window is not None:
            self.window.transitions.append(transition)

    def blind(self, what: str, *witnesses: Witness, start_ns: int | None = None, end_ns: int | None = None) -> None:
        """Note something that this run cannot see, and whose evidence is incomplete by it; it goes into the coverage.

        :param start_ns, end_ns: CLOCK_MONOTONIC; it concerns the windows of that time. ``None``: all.
        """
        self.blindness.note(what, witnesses, start_ns, end_ns)

    def housekeeping(self) -> None:
        """Forget what is dead; called by the listener every few seconds."""
        with self.lock:
            drop_dead((self.ledger.processes, self.ledger.threads), self.options.max_tasks, self.root)
            if self.window is not None and not self.window.closed:
                self.window.drain_if_half_full()

    def settle(self) -> None:
        """Cut the intervals whose time has come; called by the listener, and by who waits for the end of a window."""
        with self.lock:
            details = [detail for window in self.live() for detail in window.settle()]
        for detail in details:
            self._report(detail)

    def cpu_came_online(self, cpu: int) -> None:
        """Bring a new CPU into the window and under the sampler."""
        with self.lock:
            self.ledger.adopt_cpu(cpu)
            self.ledger.forget_sampler(cpu)
            self._start_sampler()

    def _event(self, record: bytes) -> None:
        try:
            self._take(record)
        except Exception as error:  # called from C, where it would only be printed
            # It may be as old as the last look; which window it was for is not known.
            text, heard_ns = f"an event was not handled: {error or type(error).__name__}", self.ledger.heard_ns
            self.blind(text, Witness.SWITCHES, start_ns=heard_ns, end_ns=time.monotonic_ns())

    def _take(self, record: bytes) -> None:
        kind = int.from_bytes(record[:4], "little")
        if kind == EVENT_OUTSIDE:
            self._report(Detail.decode(record))
        elif kind == EVENT_PIECE:
            self._pieces.append(Piece.decode(record))
        else:
            self.trails.add(MoveEvent.decode(record))

    def pieces(self, window: int) -> list[Piece]:
        """Take the pieces of a window that were heard; those of windows that are finished are nobody's any more."""
        while self._pieces:
            piece = self._pieces.popleft()
            self._heard.setdefault(piece.window, []).append(piece)
        found = self._heard.pop(window, [])
        oldest = min((live.number for live in self.live()), default=window)
        for number in [number for number in self._heard if number < oldest]:
            del self._heard[number]
        return found

    def _report(self, detail: Detail) -> None:
        heard_ns = time.monotonic_ns()
        with self.lock:  # what belongs to a window that is just being opened waits until it is there
            window = next((live for live in self.live() if live.number == detail.window), None)
            name = self.names.get(detail.ident)
        if window is None or name is None:
            return
        violation = Violation(
            claim=name,
            tid=detail.tid,
            tgid=detail.tgid,
            comm=comm(detail.comm),
            cpu=detail.cpu,
            first_at_ns=max(0, detail.start_ns - window.start_ns),
            reported_at_ns=heard_ns - window.start_ns,
            ns=detail.end_ns - detail.start_ns,
            window=window.number,
        )
        with self._news:
            self._found.append(violation)
            self._news.notify_all()
        if self._on_violation is not None:
            self._on_violation(violation)

    def _publish_node(self) -> None:
        self.ledger.set_cpuset_hierarchy(cgroup_mounts.v1_number("cpuset", self.root))
        pods = self.claims.pods_root
        if pods is None or self.hierarchy.unified is None:
            return
        directory = cgroupfs.identity_dir(self.hierarchy, pods)
        if directory.is_dir():
            self.ledger.add_pods_root(directory.stat().st_ino, cgroupfs.cpuset_id(self.hierarchy, pods))
            tids = cgroupfs.tids(self.hierarchy, pods)
            if not record_members(self.ledger.threads, tids, PODS_IDENT, time.monotonic_ns()):
                self.ledger.members_lost += 1

    def _watch(self) -> None:
        """Record tasks without a claim on the CPUs that are exclusive or reserved now, from now on."""
        cpus = self.claims.reserved_cpus
        for subject in self.subjects.values():
            if subject.claim.cpus is not None and subject.claim.isolation is not Isolation.HOST:
                cpus = cpus | (subject.cpus & subject.next_cpus if subject.changing else subject.cpus)
        if cpus != self.watched:
            # What runs on a CPU while it changes hands is cut here: only time after this is the new owner's.
            self.ledger.split()
            self.published.watch(cpus, time.monotonic_ns())
            self.ledger.watch(cpus)
            self.watched = cpus

    def _start_sampler(self) -> None:
        cpus = self.ledger.online()
        if not self.options.sample_nohz_full:
            cpus -= gather.nohz_full(self.root)
        self.sampled = self.ledger.sample(cpus)

    def require(self, name: str) -> Subject:
        """Return a watched claim."""
        if name not in self.subjects:
            raise InputError(f"claim {name}", "not watched", "one of " + ", ".join(sorted(self.subjects)))
        return self.subjects[name]

    def _window(self) -> Window:
        if self.window is None:
            raise RuntimeError("no window is open")
        return self.window
