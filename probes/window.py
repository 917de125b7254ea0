"""One judged window: its two edges, what every witness watches in between, and how its claims changed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from probes.edge import read_edge
from probes.readings import of_kind
from probes.subjects import Subject
from probes.switches.ledger import Ledger
from probes.witness import Edge, W, Watch, Witness
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Environment, Transition


@dataclass(slots=True)
class Window:
    """Use :meth:`open`; all methods are called under the lock."""

    ledger: Ledger
    subjects: dict[str, Subject]
    """The claims that are watched at present."""
    number: int
    first: Edge
    started_at: str
    environment: Environment | None = None
    """The machine as it was known when the window opened."""
    watches: dict[Witness, Watch] = field(default_factory=dict)
    last: Edge | None = None
    transitions: list[Transition] = field(default_factory=list)
    removed: list[Subject] = field(default_factory=list)
    quiet: CpuSet = EMPTY
    """CPUs that had no sampler for a while at least."""
    counted_ns: int = 0
    """When a closed window's counting had ended: every event of it had been sent."""
    watched_last: list[Subject] = field(default_factory=list)
    """Of a closed window: the claims that were watched when it ended."""

    @property
    def start_ns(self) -> int:
        """CLOCK_MONOTONIC at which the window opened."""
        return self.first.moment.at_ns

    @property
    def end_ns(self) -> int:
        """CLOCK_MONOTONIC at which it ended; only of a closed window."""
        if self.last is None:
            raise RuntimeError("the window is open")
        return self.last.moment.at_ns

    @property
    def closed(self) -> bool:
        """Whether the window has ended."""
        return self.last is not None

    @classmethod
    def open(
        cls,
        ledger: Ledger,
        subjects: dict[str, Subject],
        witnesses: tuple[Witness, ...],
        environment: Environment | None = None,
        edge: Edge | None = None,
    ) -> Window:
        """Open a window now, or at the edge at which the one before it has just been closed: nothing lies between."""
        edge = edge or read_edge(ledger, witnesses)
        window = cls(
            ledger=ledger,
            subjects=subjects,
            number=ledger.window,
            first=edge,
            started_at=edge.moment.started_at,
            environment=environment,
        )
        for witness in witnesses:
            window.watches[witness] = witness.begin(window, edge)
        return window

    def watch(self, kind: type[W]) -> W:
        """Return the watch of this kind.

        :raises KeyError: no witness makes one.
        """
        return of_kind(self.watches.values(), kind)

    def close(self) -> None:
        """Close the window now."""
        for watch in self.watches.values():
            watch.before_end()
        self.last = read_edge(self.ledger, tuple(self.watches))
        self.counted_ns = time.monotonic_ns()
        self.watched_last = list(self.subjects.values())
        # As at the edge: nearest to the ledger's moment first.
        for watch in reversed(self.watches.values()):
            watch.close(self.last)

    def release(self) -> None:
        """Let go of what was watched: nothing asks for it any more.

        A watch knows its window, so the two would wait for a collection of all objects: with hundreds of claims that is
        ten windows of megabytes each.
        """
        self.watches = {}

    def end(self) -> Edge:
        """Return the closing edge, or one read now where the window is still open."""
        return self.last or read_edge(self.ledger, tuple(self.watches), turn=False)

    def all_subjects(self) -> list[Subject]:
        """Return every claim watched during the window, also those removed meanwhile."""
        return [*self.removed, *self.present()]

    def present(self) -> list[Subject]:
        """Return every claim that is watched now, or was when the window ended."""
        return self.watched_last if self.closed else list(self.subjects.values())

    def last_look(self, subject: Subject) -> None:
        """Read a claim a last time, because it ends."""
        if not self.closed:
            for watch in self.watches.values():
                watch.last_look(subject)

    def cgroup_changed(self, subject: Subject, made_ns: int | None = None) -> None:
        """Read a claim whose cgroup may be another one now."""
        if not self.closed:
            for watch in self.watches.values():
                watch.cgroup_changed(subject, made_ns)

    def again(self, subject: Subject) -> None:
        """Read a claim once more that goes on."""
        if not self.closed:
            for watch in self.watches.values():
                watch.again(subject)

    def claim_added(self, subject: Subject, since_ns: int) -> None:
        """Note that a claim is watched from now on."""
        for watch in self.watches.values():
            watch.claim_added(subject)
        self.changed(subject, "claim-added", since_ns, time.monotonic_ns(), None, subject.cpus, "toolkit")

    def live_again(self, subject: Subject) -> int:
        """Return how often the CPUs of claims of this name changed: a life before in this window may have had others.

        What is read of one life must not be compared with the CPUs of the other.
        """
        before = next((one for one in reversed(self.removed) if one.name == subject.name), None)
        if before is None:
            return 0
        if before.cpus != subject.cpus and before.claim.cpus is not None:
            start_ns = max((t.start_at_ns for t in self.transitions if t.claim == subject.name), default=0)
            self.changed(
                subject,
                "mask-change",
                start_ns + self.start_ns,
                time.monotonic_ns(),
                before.cpus,
                subject.cpus,
                "toolkit",
            )
        masks = (t for t in self.transitions if t.claim == subject.name and t.what == "mask-change")
        return sum(t.cpus_before is not None and t.cpus_after is not None for t in masks)

    def promised(self, subject: Subject) -> None:
        """Note that something else is promised to a claim that goes on."""
        if not self.closed:
            for watch in self.watches.values():
                watch.promised(subject)

    def claim_removed(self, subject: Subject, start_ns: int) -> None:
        """Keep what a claim did before its slot is used again."""
        if not self.closed:
            for watch in self.watches.values():
                watch.claim_removed(subject, start_ns)
            self.removed.append(subject)
        self.changed(subject, "claim-removed", start_ns, time.monotonic_ns(), subject.cpus, None, "toolkit")

    def changed(
        self,
        subject: Subject,
        what: str,
        start_ns: int,
        end_ns: int,
        before: CpuSet | None,
        after: CpuSet | None,
        cause: str,
    ) -> None:
        """Note a change of a claim."""
        judged = subject.claim.cpus is not None
        self.transitions.append(
            Transition(
                claim=subject.name,
                what=what,
                start_at_ns=start_ns - self.start_ns,
                end_at_ns=end_ns - self.start_ns,
                cpus_before=before if judged else None,
                cpus_after=after if judged else None,
                cause=cause,
            )
        )

    def note(self, transition: Transition) -> None:
        """Take a transition whose start is CLOCK_MONOTONIC and whose end is now, or the window's."""
        now_ns = time.monotonic_ns()
        end_ns = now_ns if self.last is None else min(now_ns, self.last.moment.at_ns)
        start_at_ns, end_at_ns = transition.start_at_ns - self.start_ns, end_ns - self.start_ns
        self.transitions.append(replace(transition, start_at_ns=start_at_ns, end_at_ns=end_at_ns))
