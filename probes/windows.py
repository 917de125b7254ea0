"""What the parts of an observer share: the lock, the claims that are watched, what was published of them; and its
windows: the open one, the one before it while it is finished, and what is reported live.

The witnesses get this object. It knows no thread and no program that observes: :class:`probes.observer.Observer` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from probes.blindness import Blindness
from probes.programs import Side
from probes.subjects import PodsRoot, Subject, Violation
from probes.switches.ledger import Ledger
from probes.switches.members import record_members
from probes.switches.published import Bound, Published
from probes.switches.records import PODS_IDENT
from probes.switches.trails import Trails
from probes.window import Window
from probes.witness import Witness
from toolkit.errors import InputError
from toolkit.host import cgroup_members, cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model import blind_spots
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Environment

Kind = TypeVar("Kind", bound=Witness)


class Made(Protocol):
    """A class of witnesses: one is made for each observer, loaded and without a claim yet."""

    @property
    def SIDE(self) -> type[Side] | None:  # noqa: N802 - as :class:`probes.witness.Witness` has it
        """What it has in the kernel."""

    def __call__(self, windows: Windows, /) -> Witness:
        """Make it."""


class Windows:
    """What is watched at present, and how: everything that changes is changed under ``lock``."""

    hierarchy: Hierarchy

    def __init__(
        self,
        claims: ClaimSet,
        root: Path,
        ledger: Ledger,
        on_violation: Callable[[Violation], None] | None,
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

    def _at_home(self, ident: int, cpu: int, at_ns: int) -> bool:
        bound = self.published.of(ident, at_ns)
        return bound is not None and cpu in bound.cpus

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

    def give_back(self, name: str, cpus: CpuSet, until_ns: int) -> None:
        """Let a claim's time on these CPUs of its set be a transition's until then (CLOCK_MONOTONIC), outside after it.

        It was promised them until a moment ago, and whatever promises is about to take them back.
        """
        with self.lock:
            subject = self.require(name)
            self.publish(subject, subject.cpus - cpus, cpus & subject.cpus, until_ns)

    def found_members(self, subject: Subject, since_ns: int | None = None) -> None:
        """Write down which threads are in a claim's cgroup now; ``since_ns``: since the claim exists, unless given."""
        tids = cgroupfs.tids(self.hierarchy, subject.claim.cgroup)
        since_ns = subject.since_ns if since_ns is None else since_ns
        joining = frozenset[int]()
        if subject.cpuset_id is not None:
            mount = self.hierarchy.controller_dir("cpuset")
            joining = frozenset(tids) - (cgroup_members.tids_below(mount, subject.claim.cgroup) or frozenset())
        if not record_members(self.ledger.threads, tids, subject.ident, since_ns, joining):
            self.ledger.members_lost += 1

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

    def cpu_came_online(self, cpu: int) -> None:
        """Bring a new CPU into the window and under the sampler."""
        with self.lock:
            self.ledger.adopt_cpu(cpu)
            self.ledger.forget_sampler(cpu)
            self.start_sampler()

    def start_sampler(self) -> None:
        """Put the sampler on every online CPU, on nohz_full CPUs where that was asked for."""
        cpus = self.ledger.online()
        if not self.options.sample_nohz_full:
            cpus -= nohz_full(self.root)
        self.sampled = self.ledger.sample(cpus)

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


def nohz_full(root: Path) -> CpuSet:
    """Return the CPUs that run without a tick."""
    text = (read_control(root / "sys/devices/system/cpu/nohz_full") or "").strip()
    return CpuSet() if text in ("", "(null)") else CpuSet.parse(text, "nohz_full")
