"""The lives of a followed node: what a source lists, completed by what the kernel shows. Every source, in one place.

A life is known by its cgroup. Its name is for people: it stays as long as the life does, whatever the source calls it
later, and a second life that is listed by the same name gets a number. Whatever a reading says by name (layers, debts)
is said by the name of the life.

A list that lacks a life whose cgroup has tasks is no end of it: an engine that restarts lists nothing for a moment, and
``podman rm`` may leave the processes behind. What it was promised last goes on, and everything that is judged by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from probes.cgroups.bandwidth import lineage
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim
from toolkit.model.node_reading import MissingPart
from toolkit.sources.live_source import SourceReading

SAID_NS = 1_000_000_000
"""A life that is not listed for so long is named: one that ends has tasks for a moment after it was listed last."""


class Lives:
    """:meth:`of` with each reading, in their order.

    :param source: its name. :param hierarchy: where cgroups are; ``None``: not known, so the list alone counts.
    """

    def __init__(self, source: str, hierarchy: cgroupfs.Hierarchy | None) -> None:
        self._source, self._hierarchy = source, hierarchy
        self._known: dict[str, Claim] = {}
        """By cgroup, with the name of its life: as the last reading has them."""
        self._unlisted_ns: dict[str, int] = {}
        """Since when a life is not listed, by cgroup (CLOCK_MONOTONIC)."""

    def of(self, reading: SourceReading, at_ns: int) -> SourceReading:
        """Return a reading with the names of lives, and with those that the source does not list and that go on."""
        rows = reading.claims.claims
        listed = {claim.cgroup for claim in rows} | reading.unpromised
        unlisted = [claim for cgroup, claim in self._known.items() if cgroup not in listed]
        standing = tuple(self._standing(unlisted, reading)) if unlisted else ()
        self._unlisted_ns = {one.cgroup: self._unlisted_ns.get(one.cgroup, at_ns) for one in standing}
        claims = self._named(rows, standing)
        self._known = {claim.cgroup: claim for claim in (*claims, *standing)}
        names = {row.name: claim.name for row, claim in zip(rows, claims, strict=True) if row is not claim}
        found = _renamed(reading, names) if names else reading
        if not names and not standing:
            return found
        return replace(
            found,
            claims=replace(reading.claims, claims=(*claims, *standing)),
            unlisted=frozenset(one.name for one in standing),
            missing=(*found.missing, *(self._word(one) for one in standing if self._is_said(one, at_ns, reading))),
        )

    def _standing(self, unlisted: Iterable[Claim], reading: SourceReading) -> Iterable[Claim]:
        """Yield those that go on, and the cgroups above them that were promised something."""
        beside = [claim for claim in unlisted if not claim.kind.carries_tasks]
        lives = [one for one in unlisted if one.kind.carries_tasks and self._goes_on(one, complete=reading.complete)]
        above = {level for one in lives for level in lineage(one.cgroup)}
        yield from lives
        yield from (claim for claim in beside if claim.cgroup in above)

    def _goes_on(self, claim: Claim, *, complete: bool) -> bool:
        """Whether a life that is not listed goes on: it has tasks; if the source could not ask, its cgroup is there.

        A cgroup that is promised something runs no task for a moment, too, and is listed then.
        """
        if self._hierarchy is None:
            return not complete
        try:
            if not complete:
                return cgroupfs.exists(self._hierarchy, claim.cgroup)
            return cgroupfs.has_tasks(self._hierarchy, claim.cgroup)
        except (InputError, OSError):
            return not complete

    def _named(self, rows: Iterable[Claim], standing: Iterable[Claim]) -> tuple[Claim, ...]:
        """Return the claims that are listed, each by the name of its life."""
        names = [self._known[row.cgroup].name if row.cgroup in self._known else "" for row in rows]
        taken = {*names, *(one.name for one in standing)}
        found = []
        for row, known in zip(rows, names, strict=True):
            name, number = known or row.name, 2
            while not known and name in taken:
                name, number = f"{row.name}#{number}", number + 1
            taken.add(name)
            found.append(row if row.name == name else replace(row, name=name))
        return tuple(found)

    def _is_said(self, life: Claim, at_ns: int, reading: SourceReading) -> bool:
        lasts = at_ns - self._unlisted_ns[life.cgroup] >= SAID_NS
        return lasts and reading.complete and life.kind.carries_tasks

    def _word(self, life: Claim) -> MissingPart:
        reason = f"{self._source} does not list it, and {life.cgroup} has tasks: what it was promised last goes on"
        return MissingPart(part=life.name, reason=reason)


def _renamed(reading: SourceReading, names: Mapping[str, str]) -> SourceReading:
    """Return what a reading says by name, said by other names. :param names: these, of those that differ."""

    def part(one: MissingPart) -> MissingPart:
        return replace(one, part=names[one.part]) if one.part in names else one

    return replace(
        reading,
        held=tuple(replace(one, claim=names.get(one.claim, one.claim)) for one in reading.held),
        layers=tuple(replace(one, claim=names[one.claim]) if one.claim in names else one for one in reading.layers),
        missing=tuple(map(part, reading.missing)),
        left_out=tuple(map(part, reading.left_out)),
    )
