"""The timeline: rows that are appended and closed, cut to a window, and asked for a moment. Pure.

Source: docs/principles.md, "Change under observation".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.held import EVERY, FOREVER_NS, Held, Why


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows in the order in which they were learned: none is changed but by giving it its end."""

    rows: tuple[Held, ...] = ()

    def append(self, *rows: Held) -> Timeline:
        """Return it with more rows."""
        return Timeline((*self.rows, *rows)) if rows else self

    def open(self, *why: Why, claim: str | None = None) -> tuple[Held, ...]:
        """Return the rows of these reasons that have no end. :param claim: of this one alone."""
        return tuple(row for row in self.rows if row.is_open and row.why in why and claim in (None, row.claim))

    def close(self, at_ns: int, rows: Collection[Held]) -> Timeline:
        """Return it with an end at this moment for these of its rows; one that began later never was."""
        if not rows:
            return self
        return Timeline(
            tuple(
                replace(row, to_ns=max(at_ns, row.from_ns)) if row.is_open and row in rows else row for row in self.rows
            )
        )

    def instead(self, now: Held, before: Collection[Held], at_ns: int) -> Timeline:
        """Return it with a row in place of open ones that it goes on with. CPUs that it does not give end now.

        No CPU is in two of them.
        """
        ended = (
            replace(row, cpus=over, to_ns=max(at_ns, row.from_ns))
            for row in before
            if (over := (row.cpus or EMPTY) - (now.cpus or EMPTY))
        )
        return Timeline((*(row for row in self.rows if row not in before), *ended, now))

    def since(self, at_ns: int) -> Timeline:
        """Return it without what was over before a moment."""
        kept = tuple(row for row in self.rows if row.to_ns >= at_ns)
        return self if len(kept) == len(self.rows) else Timeline(kept)

    def cut(self, begin_ns: int, end_ns: int) -> Timeline:
        """Return what of it reaches into a window, with times since the window opened.

        A row that began before the window, or ends after it, keeps all of its time: for how long it was so counts.
        """
        return Timeline(
            tuple(
                replace(
                    row,
                    from_ns=_shifted(row.from_ns, begin_ns),
                    to_ns=_shifted(row.to_ns, begin_ns),
                    due_ns=None if row.due_ns is None else row.due_ns - begin_ns,
                )
                for row in self.rows
                if max(row.from_ns, begin_ns) < min(row.to_ns, end_ns)
            )
        )

    def of(self, claim: str) -> Timeline:
        """Return what is said of a claim, by its name or as of every one."""
        return Timeline(tuple(row for row in self.rows if row.claim in (claim, EVERY)))

    def at(self, claim: str, at_ns: int) -> tuple[Held, ...]:
        """Return what a claim held at a moment, by every row that says something of it."""
        return tuple(row for row in self.rows if row.claim in (claim, EVERY) and row.covers(at_ns))


def cpus_of(rows: tuple[Held, ...]) -> CpuSet:
    """Return the CPUs that any of the rows gives."""
    return CpuSet.union(row.cpus for row in rows if row.cpus is not None)


def _shifted(at_ns: int, by_ns: int) -> int:
    """Return a time since ``by_ns``: what is for ever stays so."""
    return at_ns if abs(at_ns) >= FOREVER_NS else at_ns - by_ns
