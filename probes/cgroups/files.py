"""The control files of a window: at both ends, about once a second in between, and when a claim comes or goes.

On a node with hundreds of claims all of them are read more seldom, and those that are written to at once
(:mod:`probes.cgroups.file_reader`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from probes.cgroups.bandwidth import lineage
from probes.cgroups.control_files import ControlFiles
from probes.cgroups.decoder import FileReading
from probes.cgroups.file_reader import PERIOD_S, FileReader
from probes.cgroups.known_files import KnownFiles
from probes.loops import Loop
from probes.observer import Observer
from probes.subjects import Subject
from probes.witness import Chore, Edge, OpenWindow, Watch, Witness
from probes.writes.witness import WriteWitness
from toolkit.model.claims import Claim
from toolkit.model.evidence import CgroupFiles


class FileEdge(NamedTuple):
    """The control files by cgroup."""

    files: dict[str, CgroupFiles]


class FileWatch(Watch):
    """One window. :attr:`files` is read by the thread, too."""

    def __init__(self, known: KnownFiles, window: OpenWindow, first: Mapping[str, CgroupFiles]) -> None:
        self._known, self._window = known, window
        self._before = dict(first)
        self.files = ControlFiles(known, first, window.start_ns)

    def claim_added(self, subject: Subject) -> None:
        """Read a new claim's files: what they are is what they were before."""
        for cgroup, files in read_claim_files(self._known, [subject.claim]).items():
            self._before.setdefault(cgroup, files)
            self.files.note(files)

    def last_look(self, subject: Subject) -> None:
        """Read them once more."""
        self._note(read_claim_files(self._known, [subject.claim]))

    def close(self, edge: Edge) -> None:
        """Take the last reading."""
        self._note(edge.of(FileEdge).files)
        self.files.end(edge.moment.at_ns)

    def read(self, edge: Edge) -> FileReading:
        """Return the window so far."""
        last = edge.of(FileEdge).files
        if not self._window.closed:
            self._note(last)
        files = self.files
        return FileReading(
            before=dict(self._before),
            after=self._after(last),
            during=files.changes(self._window.start_ns),
            readings=files.readings,
            gap_ns=files.gap_ns(edge.moment.at_ns),
            unwatched_ns=files.unwatched_ns(edge.moment.at_ns),
            dropped=files.dropped,
            never_at_rest=files.never_at_rest(),
        )

    def _note(self, found: Mapping[str, CgroupFiles]) -> None:
        for files in found.values():
            self.files.note(files)

    def _after(self, last: Mapping[str, CgroupFiles]) -> tuple[CgroupFiles, ...]:
        """Return the control files as last read of every cgroup that was watched, also of those that ended."""
        wanted = {level for subject in self._window.all_subjects() for level in lineage(subject.claim.cgroup)}
        found = []
        for cgroup in sorted(wanted):
            files = last.get(cgroup)
            if files is None or files.empty:
                files = self.files.last(cgroup) or files
            if files is not None:
                found.append(files)
        return tuple(found)


class Files(Witness):
    """Control files read back. Another pace is a class of its own, in an observer's ``witnesses``."""

    period_s = PERIOD_S
    """Seconds from one reading to the next in an open window, where that costs little."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._known: KnownFiles | None = None
        self._reader: FileReader | None = None
        self._loop: Loop | None = None
        self._others = True
        """Whether another window, or other claims, are there than when the reader was woken last."""

    def chores(self) -> tuple[Chore, ...]:
        """Wake what reads files when there is something to do: a write that is reported ends a round at once. And once
        a second, in the round that hears what was sent until then.
        """
        return Chore(self.period_s, self._beat), Chore(0.0, self._wake)

    def _beat(self) -> None:
        if self._reader is not None and self._loop is not None:
            self._reader.beaten = True
            if self._reader.rests:
                self._loop.wake()

    def _wake(self) -> None:
        if self._reader is None or self._loop is None or not self._reader.rests:
            return
        if self._others or any(witness.stirred() for witness in self._observer.witnesses):
            self._others = False
            self._loop.wake()

    def claiming(self, subject: Subject) -> None:
        """Let a new claim be known to what reads files."""
        del subject
        self._others = True
        if self._loop is not None:
            self._observer.ledger.wake()

    def unclaiming(self, subject: Subject) -> None:
        """As :meth:`claiming`."""
        self.claiming(subject)

    def running(self) -> AbstractContextManager[object]:
        """Read them, in a thread of its own."""
        self._reader = reader = FileReader(
            self._observer,
            lambda window: window.watch(FileWatch).files,
            self.known.forget,
            self._written,
            self.period_s,
            misses_none=self._misses_none,
        )
        self._loop = Loop(self._observer, "pinproof-files", reader.round, FileReader.WITNESSES)
        return self._loop

    @property
    def known(self) -> KnownFiles:
        """What is known of them."""
        if self._known is None:
            self._known = KnownFiles(self._observer.hierarchy, self._observer.kept)
        return self._known

    def begin(self, window: OpenWindow, first: Edge) -> FileWatch:
        """Begin with a window."""
        self._others = True
        return FileWatch(self.known, window, first.of(FileEdge).files)

    def edge(self, turn: bool) -> Generator[None, None, FileEdge]:
        """Read the files of all claims: dear, and therefore far from the ledger's moment."""
        del turn
        found = read_claim_files(self.known, self._claims())
        yield
        return FileEdge(found)

    def forget_old(self) -> None:
        """Forget the cgroups that nothing watches any more."""
        self.known.keep(level for claim in self._claims() for level in lineage(claim.cgroup))

    def _claims(self) -> list[Claim]:
        return [subject.claim for subject in self._observer.subjects.values()]

    def _written(self) -> frozenset[str] | None:
        """Return whose files were written; ``None``: nothing sees every write."""
        writes = self._writes()
        return None if writes is None else writes.written()

    def _misses_none(self) -> bool:
        """Say whether the program reports writes: inotify hears of none by Linux AIO, nor of all through io_uring."""
        writes = self._writes()
        return writes is not None and writes.notices is None

    def _writes(self) -> WriteWitness | None:
        try:
            return self._observer.witness(WriteWitness)
        except KeyError:
            return None


def read_claim_files(known: KnownFiles, claims: list[Claim]) -> dict[str, CgroupFiles]:
    """Read the control files of every claim's cgroup and its ancestors."""
    return known.read_all({level for claim in claims for level in lineage(claim.cgroup)})
