"""What the subjects of a followed node hold now, and what of it they must give back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import FOREVER_NS, Held, Why
from toolkit.sources.kubelet.followed_claims import Followed
from toolkit.sources.kubelet.reconciles import Reconciles


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """:param claims: of all that run. :param owed: what of their sets they must give back."""

    claims: tuple[Claim, ...]
    owed: tuple[Held, ...]


class InForce:
    """Of one node, from reading to reading."""

    def __init__(self) -> None:
        self._reconciles = Reconciles()
        self._settled: tuple[Followed, CpuSet, Holding] | None = None
        """The last reading and what the pool may have, where nothing waits for a reconcile: no time is in it."""

    def of(
        self,
        now: Followed,
        freed: CpuSet,
        taken: Mapping[str, CpuSet],
        within_ns: int,
        now_ns: int,
        lost_ns: int | None,
        *,
        silent: bool = False,
    ) -> Holding:
        """Return it.

        :param freed, within_ns, lost_ns, silent: see :meth:`Reconciles.in_force`.
        :param taken: see :meth:`Owned.taken`.
        """
        if self._settled is not None and self._settled[0] is now and self._settled[1] == freed and not taken:
            return self._settled[2]
        claims, owed = [], []
        for one in now.held:
            claim, back = self._reconciles.in_force(one, freed, within_ns, now_ns, lost_ns, silent=silent)
            if mine := taken.get(claim.name):
                # Of an empty pool it has nothing else.
                claim, back = (claim, back & mine) if claim.cpus else (replace(claim, cpus=mine), mine)
            claims.append(claim)
            if back:
                since_ns = self._reconciles.since_ns(claim.cgroup)
                why, known = Why.TAKEN if mine else Why.OWED, -FOREVER_NS if since_ns is None else since_ns
                owed.append(Held(claim=claim.name, cgroup=claim.cgroup, cpus=back, why=why, from_ns=known))
        self._reconciles.keep(claim.cgroup for claim in claims)
        found = Holding(claims=tuple(claims), owed=tuple(owed))
        self._settled = None if taken or silent or self._reconciles.late else (now, freed, found)
        return found
