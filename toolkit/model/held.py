"""What a claim held from when to when: the one form in which a promise is kept. Values only.

They are appended, closed, cut and asked by :mod:`toolkit.timeline.held`. Source: docs/principles.md, "Change under
observation".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value

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

    A kubelet takes an ended pod's CPUs back into the shared pool and widens the pool's containers in one go.
    Source: pkg/kubelet/cm/cpumanager/cpu_manager.go, ``reconcileState`` (ended containers are removed from the state,
    and the others are updated, in one pass); docs/facts.md K-kubelet-11.
    """
    MADE_ANEW = "made-anew"
    """Its cgroup was made again under its name, and its source had not spoken of that life yet."""
    UNREAD = "unread"
    """The source was not read any more: what was promised then is not known."""
    OWED = "owed"
    """It had these CPUs still after they were promised away, as a shared pool has until the kubelet's reconcile. Time
    there is a transition's; from ``due_ns`` on they break the claim."""
    TAKEN = "taken"
    """They were its own and are another pod's, which runs on them: due at once, no reconcile repairs that."""
    FORGOTTEN = "forgotten"
    """It asks for CPUs of its own, has these, and none by the state file. Certain: the kubelet has it among the pods
    that it has allocated; else it may be one that has ended."""
    BEING_MADE = "being-made"
    """The runtime had created the container of this cgroup, and it did not run yet: it held nothing."""


OWING = (Why.OWED, Why.TAKEN)
"""Reasons of rows whose CPUs must be given back."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Claim ``claim`` held this from ``from_ns`` on, until just before ``to_ns``.

    :param claim: its name, or :data:`EVERY`. :param cgroup: of the life of which it is so; empty: not said.
    :param cpus, mems, quota_us, period_us, weight: as in :class:`~toolkit.model.claims.Claim`; ``None``: nothing is
        said of it.
    :param isolation: whose the CPUs were.
    :param from_ns, to_ns: of one clock; of a window: since it opened, negative before it. A row that ends after its
        window, or not at all, has no end in it.
    :param due_ns: from when on it must be over; ``None``: it need not be.
    :param asks: CPUs of its own that it asks for, where it has another number.
    :param certain: it is known; else it may have been so for all of that time, or a part of it, or not at all.
    """

    claim: str
    cgroup: str = ""
    cpus: CpuSet | None = None
    isolation: Isolation = Isolation.HOST
    mems: CpuSet | None = None
    quota_us: int | None = None
    period_us: int | None = None
    weight: int | None = None
    why: Why = Why.PROMISED
    from_ns: int = -FOREVER_NS
    to_ns: int = FOREVER_NS
    due_ns: int | None = None
    asks: int | None = None
    certain: bool = True

    @property
    def is_open(self) -> bool:
        """Whether it has no end."""
        return self.to_ns == FOREVER_NS

    def covers(self, at_ns: int) -> bool:
        """Return whether it was so at a moment."""
        return self.from_ns <= at_ns < self.to_ns
