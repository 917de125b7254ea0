"""The observer: claims in, evidence out. Watches every context switch, every thread's mask and every cgroup's CPU time.

Does not judge: what it returns says nothing about right or wrong beyond the arithmetic of sets. Calls may come from any
thread; threads of its own listen and read.

What its parts share is :mod:`probes.windows`, on which this stands. It calls the witnesses in the order of their list
and knows none by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from probes import gather, lifecycle, loaded
from probes.build import build
from probes.composition import WITNESSES, new_ledger
from probes.listener import listening
from probes.options import ObserveOptions
from probes.readings import Readings
from probes.subjects import ALL_CPUS, Subject, Violation, check_place
from probes.switches.ledger import Ledger
from probes.switches.records import FOREVER_NS
from probes.window import Window
from probes.windows import Made, Windows
from probes.witness import Edge
from toolkit.errors import InputError
from toolkit.host import cgroup_mounts, cgroupfs
from toolkit.host.kept_files import MOST_COUNTERS, SHARE_COUNTERS, KeptFiles
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence

__all__ = ["ObserveOptions", "Observer", "Violation"]


class Observer(Windows):
    """Watches a node's claims from ``__enter__`` to ``__exit__``; evidence is about one window inside at a time.

    :param ledger: loaded already, for ``witnesses`` (:func:`probes.loaded.loaded`): observers that use it one after the
        other compile nothing and know nothing of each other. ``None``: this observer loads one for itself.
    :param witnesses: what it is composed of, in the order in which they read (:mod:`probes.composition`).
    :param kept: reads control files, where another reads them, too, which then closes it. ``None``: one of its own.
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
        witnesses: Sequence[Made] = WITNESSES,
        kept: KeptFiles | None = None,
    ) -> None:
        if ledger is not None and options not in (None, ledger.options):
            raise ValueError("the programs were compiled for other options")
        super().__init__(claims, root, ledger or new_ledger(root, options, witnesses), on_violation)
        self._borrowed, self._lent = ledger is not None, kept
        self._composition = tuple(witnesses)
        self._free = list(range(self.options.max_claims))
        self._stack = ExitStack()

    def __enter__(self) -> Observer:
        """Load and attach the programs, publish the claims, start listening."""
        self.hierarchy = loaded.unified_hierarchy(self.root)
        for claim in self.claims.claims:
            check_place(claim)  # before anything is compiled
        with ExitStack() as stack:
            self.kept = self._lent or stack.enter_context(KeptFiles())
            self.kept_counters = stack.enter_context(KeptFiles(MOST_COUNTERS, SHARE_COUNTERS))
            if not self._borrowed:
                stack.enter_context(loaded.attached(self.ledger))
            stack.enter_context(self.ledger.lent())
            self.witnesses = tuple(make(self) for make in self._composition)
            self.ledger.set_hierarchies({name: cgroup_mounts.v1_number(name, self.root) for name in cgroupfs.PROMISING})
            if self.claims.pods_root is not None:
                self.watch_pods(self.claims.pods_root)
            self._watch()
            for claim in self.claims.claims:
                self.add_claim(claim)
            self.start_sampler()
            for witness in self.witnesses:
                stack.enter_context(witness.running())
            stack.enter_context(listening(self))
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
            self.poll()  # nothing has asked for what was reported before
            for subject in self.subjects.values():
                subject.epoch = 0
            self.published.forget_before(time.monotonic_ns())
            self.window = self._opened()

    def _opened(self, edge: Edge | None = None) -> Window:
        """Return a window that opens now, or at the edge at which the one before it has just been closed."""
        return Window.open(self.ledger, self.subjects, self.witnesses, self.environment, edge)

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
            readings = gather.readings(self, window)
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
            return gather.readings(self, self._window())

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

    def restarting(self, name: str, cause: str = "toolkit") -> AbstractContextManager[None]:
        """Let a claim's tasks end and begin anew inside the block, in the same cgroup or in a new one of its name."""
        self.require(name)
        return lifecycle.restarting(self, name, cause)

    @contextmanager
    def ending(self, name: str, cause: str = "toolkit") -> Iterator[None]:
        """Let a claim's tasks end inside the block, and the claim with them; its cgroup goes in the block or later."""
        with lifecycle.ending(self, name, cause):
            yield
        self.remove_claim(name)

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
