"""The control files of a window: at both ends, about once a second in between, and when a claim comes or goes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager

from probes.cgroups.bandwidth import lineage
from probes.cgroups.control_files import ControlFiles, read_whole
from probes.cgroups.decoder import FileReading
from probes.cgroups.file_reader import PERIOD_S, FileReader
from probes.loops import Loop
from probes.readings import Moment
from probes.state import State
from probes.subjects import Subject
from probes.windows import Windows
from probes.witness import OpenWindow, Watch, Witness
from toolkit.model.claims import Claim
from toolkit.model.evidence import CgroupFiles

FileEdge = dict[str, CgroupFiles]


class FileWatch(Watch[FileEdge]):
    """One window. :attr:`files` is read by the thread, too."""

    def __init__(self, state: State, window: OpenWindow, first: FileEdge) -> None:
        self._state, self._window = state, window
        self._before = dict(first)
        self.files = ControlFiles(state.hierarchy, first, window.start_ns)

    def claim_added(self, subject: Subject) -> None:
        """Read a new claim's files: what they are is what they were before."""
        for cgroup, files in read_claim_files(self._state, [subject.claim]).items():
            self._before.setdefault(cgroup, files)
            self.files.note(files)

    def last_look(self, subject: Subject) -> None:
        """Read them once more."""
        self._note(read_claim_files(self._state, [subject.claim]))

    def close(self, edge: FileEdge, moment: Moment) -> None:
        """Take the last reading."""
        self._note(edge)
        self.files.end(moment.at_ns)

    def read(self, edge: FileEdge, moment: Moment) -> FileReading:
        """Return the window so far."""
        if not self._window.closed:
            self._note(edge)
        files = self.files
        return FileReading(
            before=dict(self._before),
            after=self._after(edge),
            during=files.changes(self._window.start_ns),
            readings=files.readings,
            gap_ns=files.gap_ns(moment.at_ns),
            dropped=files.dropped,
            unsettled=files.unsettled(),
        )

    def _note(self, found: FileEdge) -> None:
        for files in found.values():
            self.files.note(files)

    def _after(self, edge: FileEdge) -> tuple[CgroupFiles, ...]:
        """Return the control files as last read of every cgroup that was watched, also of those that ended."""
        wanted = {level for subject in self._window.all_subjects() for level in lineage(subject.claim.cgroup)}
        found = []
        for cgroup in sorted(wanted):
            files = edge.get(cgroup)
            if files is None or files.empty:
                files = self.files.last(cgroup) or files
            if files is not None:
                found.append(files)
        return tuple(found)


class Files(Witness[FileEdge]):
    """Control files read back. Another pace is a class of its own, in an observer's ``witnesses``."""

    period_s = PERIOD_S
    """Seconds from one reading to the next in an open window."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    def running(self) -> AbstractContextManager[object]:
        """Read them once a second, in a thread of its own."""
        reader = FileReader(
            self._windows, lambda window, cgroups: window.watch(FileWatch).files.read(cgroups), self.period_s
        )
        return Loop(self._windows, "pinproof-files", reader.round, FileReader.WITNESSES)

    def begin(self, window: OpenWindow, first: FileEdge) -> FileWatch:
        """Begin with a window."""
        return FileWatch(self._windows, window, first)

    def edge(self, turn: bool) -> Generator[None, None, FileEdge]:
        """Read the files of all claims: dear, and therefore far from the ledger's moment."""
        del turn
        found = read_claim_files(self._windows, [subject.claim for subject in self._windows.subjects.values()])
        yield
        return found


def read_claim_files(state: State, claims: list[Claim]) -> FileEdge:
    """Read the control files of every claim's cgroup and its ancestors."""
    wanted = {level for claim in claims for level in lineage(claim.cgroup)}
    return {cgroup: read_whole(state.hierarchy, cgroup) for cgroup in sorted(wanted)}
