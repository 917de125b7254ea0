"""How long the threads of every claim waited for a CPU, read at the edges of windows.

On a full node they are ten thousand, and most sleep. The kernel counts a wait when it ends, because the thread gets a
CPU: of a claim of which the ledger saw nothing run since its threads were read, they say what they said. (A thread that
is moved to another CPU's queue while it waits has a part counted then. It is in the window in which its claim runs
next. Where a verdict rests on it that a claim waited, its threads are read each time.)

Source: kernel/sched/stats.h (``sched_info_arrive``, ``sched_info_dequeue``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from probes.cgroups.bandwidth import lineage
from probes.node.system import read_run_delay
from probes.subjects import Subject
from probes.switches.ledger import Ledger
from toolkit.host import cgroupfs
from toolkit.host.cgroupfs import Hierarchy

Inside = Mapping[int, Sequence[int] | None]
"""By ident: the processes that are in a claim's cgroup with all their threads; ``None``: that is not known."""


@dataclass(frozen=True, slots=True)
class _Read:
    inside: Sequence[int]
    delays: Mapping[int, int]


@dataclass(slots=True)
class Waits:
    """The waits of an observer's claims. Called under its lock."""

    root: Path
    hierarchy: Hierarchy
    ledger: Ledger
    _known: dict[int, _Read] = field(default_factory=dict)
    """By ident."""
    _known_in: int = -1
    """The ledger's window that was running when they were read."""

    def read(self, subjects: Sequence[Subject], inside: Inside, window: int) -> dict[str, Mapping[int, int]]:
        """Return by claim, for each thread, how long it has waited (ns).

        :param window: the ledger's, up to whose end, or up to now, this is the reading.
        """
        known = self._known if window == self._known_in else {}
        ran = self._ran(subjects, window)
        above = {level for subject in subjects for level in lineage(subject.claim.cgroup)[1:]}
        found: dict[int, Mapping[int, int]] = {}
        threads: dict[int, int] = {}
        # Those inside first: whose threads are another claim's, too, need not be read for both.
        for subject in sorted(subjects, key=lambda subject: -subject.claim.cgroup.count("/")):
            claim, before = subject.claim, known.get(subject.ident)
            outer = claim.cgroup in above
            same = before is not None and before.inside == inside[subject.ident] and subject.ident not in ran
            if before is not None and same and not outer and not claim.divided:
                delays = before.delays
            else:
                tids = cgroupfs.tids(self.hierarchy, claim.cgroup)
                delays = read_run_delay(tuple(tid for tid in tids if tid not in threads), self.root)
                delays |= {tid: threads[tid] for tid in tids if tid in threads}
            found[subject.ident] = delays
            if above:
                threads.update(delays)
        self._known = {
            ident: _Read(pids, found[ident]) for ident, pids in inside.items() if pids is not None and ident in found
        }
        self._known_in = self.ledger.window
        return {subject.name: found[subject.ident] for subject in subjects}

    def _ran(self, subjects: Sequence[Subject], window: int) -> frozenset[int]:
        """Return by ident the claims of which something ran, or may have: nothing counts where nothing is loaded."""
        if not self.ledger.observed:
            return frozenset(subject.ident for subject in subjects)
        ran = self.ledger.rows.all_ns((subject.slot for subject in subjects), window)
        return frozenset(subject.ident for subject in subjects if ran[subject.slot])
