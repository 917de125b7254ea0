"""The windows of an observer: the open one, the one before it while it is finished, and what is reported live.

Stands on :mod:`probes.state`. The witnesses get this object.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from probes.state import State
from probes.subjects import PodsRoot, Subject, Violation
from probes.switches.ledger import Ledger
from probes.switches.records import PODS_IDENT
from probes.window import Window
from probes.witness import Witness
from toolkit.model.claims import Claim, ClaimSet

Kind = TypeVar("Kind", bound=Witness)


class Windows(State):
    """The open window and the one being finished, and the witnesses that watch in them."""

    def __init__(
        self,
        claims: ClaimSet,
        root: Path,
        ledger: Ledger,
        on_violation: Callable[[Violation], None] | None,
    ) -> None:
        super().__init__(claims, root, ledger)
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

    def witness(self, kind: type[Kind]) -> Kind:
        """Return the witness of this kind.

        :raises KeyError: the observer was composed without it.
        """
        for witness in self.witnesses:
            if isinstance(witness, kind):
                return witness
        raise KeyError(kind.__name__)

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

    def live(self) -> tuple[Window, ...]:
        """Return the windows that still take something in, in their order: the one being finished, the open one."""
        return tuple(window for window in (self.closing, self.window) if window is not None)

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

    def violations(self) -> tuple[Violation, ...]:
        """Return the violations reported since the last call, without waiting."""
        return self.poll()

    def report(self, violation: Violation) -> None:
        """Report a violation to whatever listens; not under the lock."""
        self._found.put(violation)
        if self._on_violation is not None:
            self._on_violation(violation)

    def read_last(self, name: str) -> None:
        """Read a claim's counters and control files now, because its cgroup is about to be deleted."""
        with self.lock:
            if self.window is not None and name in self.subjects:
                self.window.last_look(self.subjects[name])

    def promise(self, claim: Claim) -> None:
        """Watch a claim by what it is promised from now on: a quota, a part of CPU time, memory nodes.

        Its cgroup, and whether it has CPUs and whose, are as before: CPUs change by ``Observer.changing``. Nothing
        happens where no claim of this name is watched: of a cgroup that runs no tasks.
        """
        with self.lock:
            subject = self.subjects.get(claim.name)
            if subject is not None and subject.claim != claim:
                subject.claim = claim
                if self.window is not None:
                    self.window.promised(subject)

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

    def verify_pods(self) -> None:
        """Let every witness make sure that what it knows of the cgroup of all pods is still so; under the lock."""
        if self.pods is not None:
            for witness in self.witnesses:
                witness.verify_pods(self.pods)

    def _window(self) -> Window:
        if self.window is None:
            raise RuntimeError("no window is open")
        return self.window
