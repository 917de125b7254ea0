"""What a claim held from when to when: rows that are appended and closed, cut to a window, and asked for a moment.

Source: docs/principles.md, "Change under observation".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet

FOREVER_NS = 1 << 62
"""Later than any moment; negative: earlier than any."""
EVERY = ""
"""Instead of a claim's name: what the row says is so of every claim."""
Span = tuple[int, int]


class Why(StrEnum):
    """Why a claim held what a row says."""

    PROMISED = "promised"
    """A plan, a claims file or a source says so."""
    CHANGING = "changing"
    """Its set was being changed: it held what the old and the new one have in common."""
    GRANTED = "granted"
    """A reading says so, and it may have been so since the reading before that one.

    Source: pkg/kubelet/cm/cpumanager/cpu_manager.go, ``reconcileState`` (ended containers are removed from the state,
    and the others are updated, in one pass); docs/facts.md K-kubelet-11.
    """
    MADE_ANEW = "made-anew"
    """Its cgroup was made again under its name, and its source had not spoken of that life yet."""
    UNREAD = "unread"
    """The source was not read any more: what was promised then is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Claim ``claim`` held this from ``from_ns`` on, until just before ``to_ns``.

    :param claim: its name, or :data:`EVERY`.
    :param cpus, mems, quota_us, period_us, weight: as in :class:`~toolkit.model.claims.Claim`; ``None``: nothing is
        said of it.
    :param isolation: whose the CPUs were.
    :param from_ns, to_ns: of one clock; of a window: since it opened, negative before it.
    :param certain: it is known; else it may have been so for all of that time, or a part of it, or not at all.
    """

    claim: str
    cpus: CpuSet | None = None
    isolation: Isolation = Isolation.HOST
    mems: CpuSet | None = None
    quota_us: int | None = None
    period_us: int | None = None
    weight: int | None = None
    why: Why = Why.PROMISED
    from_ns: int = -FOREVER_NS
    to_ns: int = FOREVER_NS
    certain: bool = True

    def covers(self, at_ns: int) -> bool:
        """Return whether it was so at a moment."""
        return self.from_ns <= at_ns < self.to_ns


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows in the order in which they were learned: none is changed but by giving it its end."""

    rows: tuple[Held, ...] = ()

    def append(self, *rows: Held) -> Timeline:
        """Return it with more rows."""
        return Timeline((*self.rows, *rows)) if rows else self

    def close(self, claim: str, at_ns: int) -> Timeline:
        """Return it with an end at this moment for every row of a claim that began before, and has none."""
        return Timeline(
            tuple(
                replace(row, to_ns=at_ns)
                if row.claim == claim and row.to_ns == FOREVER_NS and row.from_ns < at_ns
                else row
                for row in self.rows
            )
        )

    def cut(self, begin_ns: int, end_ns: int) -> Timeline:
        """Return what of it reaches into a window, with times since the window opened.

        A row that began before the window, or ends after it, keeps all of its time: for how long it was so counts.
        """
        return Timeline(
            tuple(
                replace(row, from_ns=_shifted(row.from_ns, begin_ns), to_ns=_shifted(row.to_ns, begin_ns))
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
