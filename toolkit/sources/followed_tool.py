"""podman, docker, systemd or Slurm as a source that is followed (:mod:`toolkit.sources.live_source`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim
from toolkit.model.node_reading import MissingPart
from toolkit.model.runtimes import SETUP_NS
from toolkit.sources.gathered import hierarchy_of, is_there
from toolkit.sources.live_source import EVERY_S, SourceReading
from toolkit.sources.places import Places
from toolkit.sources.registry import Source
from toolkit.text.names import printable

SAID_AFTER_S = SETUP_NS / 1e9
"""A tool writes down what it has changed when its runtime, a program, has returned."""


class FollowedTool:
    """A :class:`toolkit.sources.live_source.LiveSource`.

    :param where: a file or a socket; ``None``: the tool itself.
    :param report: called with a line for each claim of the first reading whose cgroup does not exist; where nothing is
        to be watched, also for what was not read.
    :param every_s: as there.
    """

    def __init__(
        self,
        source: Source,
        where: Path | None,
        places: Places,
        report: Callable[[str], None] = lambda _line: None,
        every_s: float = EVERY_S,
    ) -> None:
        self.name, self.every_s = source.name, every_s
        self._report = report
        self._source, self._where, self._places = source, where, places
        self._last: SourceReading | None = None
        self._found: set[str] = set()
        """Cgroups that existed; of those that the tool names no longer nothing is kept."""

    def read(self) -> SourceReading:
        """Ask the tool. What is listed and has no cgroup is not watched: it does not run; or it runs by the tool's
        word, and nothing finds it: then every verdict is in doubt.
        """
        hierarchy = hierarchy_of(self._places.root)
        try:
            reading = self._source.read(self._where, self._places)
        except InputError as error:
            if self._last is None:
                raise
            missing = (MissingPart(part=self.name, reason=str(error)), *self._last.missing)
            return replace(self._last, missing=missing, complete=False)
        running = tuple(claim for claim in reading.claims.claims if is_there(hierarchy, claim.cgroup))
        self._found |= {claim.cgroup for claim in running}
        # One that was there has ended, whatever is still said of it (a file says it for ever).
        ended = {claim.name for claim in reading.claims.claims if claim.cgroup in self._found and claim not in running}
        reading = replace(reading, left_out=tuple(part for part in reading.left_out if part.part not in ended))
        if self._last is None:
            self._report_what_is_left_out(reading, running)
        if not running and self._last is None:
            for part in reading.missing:
                self._report(f"not read: {printable(part.part)}: {printable(part.reason)}")
            raise InputError(f"--{self.name}", "nothing runs here that was promised anything", self._source.title)
        self._found &= {claim.cgroup for claim in reading.claims.claims}
        claims = replace(reading.claims, claims=running)
        self._last = replace(reading, claims=claims, said_after_s=SAID_AFTER_S)
        return self._last

    def _report_what_is_left_out(self, reading: SourceReading, running: tuple[Claim, ...]) -> None:
        named = {part.part for part in reading.left_out}  # the follower says it of those
        for claim in reading.claims.claims:
            if claim not in running and claim.name not in named:
                self._report(f"not watched: {claim.name}: its cgroup {claim.cgroup} does not exist")

    def signs(self) -> Sequence[Path]:
        """The control files of what runs, and the cgroups above, where others appear."""
        hierarchy = hierarchy_of(self._places.root)
        if self._last is None or hierarchy is None:
            return ()
        files = {
            Path(path) for claim in self._last.claims.claims for path in cgroupfs.control_paths(hierarchy, claim.cgroup)
        }
        return sorted(files | {file.parent.parent for file in files})
