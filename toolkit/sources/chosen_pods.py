"""A source of which the pods of some names are watched: the others run, and are promised nothing here.

What a task of another pod does on a claim's CPUs is a foreign pod's, as that of any pod without a claim. State files
are read whole: the checkpoint is the node's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from toolkit.model.claims import Claim, SubjectKind
from toolkit.sources.live_source import LiveSource, SourceReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Patterns as a shell has them (``web-*``). Without any of a kind each name is right."""

    namespaces: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether it leaves out anything."""
        return bool(self.namespaces or self.pods)

    def has(self, claim: Claim) -> bool:
        """Whether a claim is one of these pods'. A class's cgroup is of all pods in it."""
        if claim.kind is SubjectKind.QOS:
            return True
        pod = claim.pod.removeprefix(f"{claim.namespace}/") if claim.namespace else claim.pod
        return _among(claim.namespace, self.namespaces) and _among(pod, self.pods)


def _among(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


class ChosenPods:
    """A :class:`LiveSource`: another one, and of it what was chosen."""

    def __init__(self, source: LiveSource, choice: Choice) -> None:
        self._source, self._choice = source, choice

    @property
    def name(self) -> str:
        """What is followed."""
        return self._source.name

    @property
    def every_s(self) -> float:
        """As of the whole source."""
        return self._source.every_s

    def signs(self) -> Sequence[Path]:
        """As of the whole source: a pool changes by what other pods are given."""
        return self._source.signs()

    def read(self) -> SourceReading:
        """Read it, and leave out the others."""
        return chosen(self._source.read(), self._choice)


def chosen(reading: SourceReading, choice: Choice) -> SourceReading:
    """Return what a reading says of the chosen pods."""
    others = [claim for claim in reading.claims.claims if not choice.has(claim)]
    names = {claim.name for claim in others}
    kept = tuple(claim for claim in reading.claims.claims if claim.name not in names)
    return replace(
        reading,
        claims=replace(reading.claims, claims=kept),
        held=tuple(row for row in reading.held if row.claim not in names),
        layers=tuple(view for view in reading.layers if view.claim not in names),
        left_out=tuple(part for part in reading.left_out if part.part not in names),
        unpromised=reading.unpromised | {claim.cgroup for claim in others},
        unlisted=reading.unlisted - names,
    )
