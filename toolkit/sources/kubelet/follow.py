"""A kubelet's node to follow: read again and again, with the memory that its promises need.

What a container of the shared pool holds is what the kubelet asked for last. The state file is ahead of that by up to a
reconcile period: CPUs that the pool has lost are given back then, CPUs that it has won may be used at any time from now
on. While the state file is absent or says nothing (the kubelet restarts), what it said last holds.

Source: docs/facts.md K-kubelet-1, K-kubelet-2, "Normal on a healthy node".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.evidence.following import Gauges
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_reading import MissingPart
from toolkit.sources.kubelet import huge_pages
from toolkit.sources.kubelet.claims import NodeClaims
from toolkit.sources.kubelet.control_words import ControlWords
from toolkit.sources.kubelet.costs import COSTS
from toolkit.sources.kubelet.facts import NodeFacts, wait_ns
from toolkit.sources.kubelet.followed import Followed
from toolkit.sources.kubelet.gauges import Entered, gauges_beside, manager_gauges
from toolkit.sources.kubelet.holding import InForce, Owned, PoolChanges
from toolkit.sources.kubelet.live import LiveNode
from toolkit.sources.kubelet.memory import Memory
from toolkit.sources.kubelet.metrics_text import FILE as METRICS
from toolkit.sources.kubelet.overdue import SLACK_S
from toolkit.sources.kubelet.places import Places
from toolkit.sources.kubelet.reading_pace import ReadingPace
from toolkit.sources.kubelet.signs import Signs
from toolkit.sources.kubelet.state_file import HeldState, Stated, not_read
from toolkit.sources.live_source import EVERY_S, SourceReading

ENDING_NS = 5_000_000_000
"""So long a runtime may list a container as running whose cgroup is gone: a busy machine's shims wait for a CPU."""
GAUGES_EVERY_NS = 10_000_000_000
"""An answer has thousands of lines, and costs the kubelet time to make."""


class KubeletSource:
    """A :class:`LiveSource`. :param every_s: what was asked for. :param kept: reads control files."""

    name = "kubelet"

    def __init__(self, places: Places, every_s: float = EVERY_S, kept: KeptFiles = NONE_KEPT) -> None:
        self._places = places
        self._pace, self._signs = ReadingPace(every_s), Signs()
        self._memory = Memory(kept)
        self._facts = NodeFacts()
        self._since = _Since()

    def read(self) -> SourceReading:
        """Read state files, configuration, runtime and cgroups; not the threads."""
        return self._pace.take(self._read)

    def _read(self) -> SourceReading:
        now_ns = time.monotonic_ns()
        node = LiveNode(self._places, memory=self._memory, metrics=now_ns >= self._since.gauges_due_ns)
        words = ControlWords(node.tops, self._memory.kept)
        known = None if self._facts.last is None else self._facts.last[1]
        self._memory.answers.need_not_ask(self._memory.turns.spared(known, words))
        files = node.files_of_all()
        now = self._facts.of(node, files, now_ns)
        self._signs.look(node.kubelet_root, node.root, node.tops, now.reading.cgroups)
        self._memory.turns.take(now)
        return self._since.reading(now, self._facts.held, words, node, files, now_ns)

    @property
    def every_s(self) -> float:
        """Seconds until it is read again without a sign."""
        return self._pace.every_s

    def signs(self) -> Sequence[Path]:
        """State files, the tree of pods, and the control files of the containers' CPUs."""
        return self._signs.seen


class _Since:
    """What of a node's facts depends on when they became so, and on what was so before."""

    def __init__(self) -> None:
        self._owned, self._in_force, self._pool = Owned(), InForce(), PoolChanges()
        self._stated, self._entered = Stated(), Entered()
        self.gauges_due_ns = 0
        self._lost: dict[str, int] = {}
        """Containers whose cgroup was not found at the last reading: since when, by id."""
        self._had: frozenset[str] = frozenset()
        """Ids of containers that had a cgroup, and of those that are ending."""

    def reading(
        self, now: Followed, held: HeldState, words: ControlWords, node: LiveNode, files: dict[str, bytes], now_ns: int
    ) -> SourceReading:
        """Return what is said at this moment.

        :param held: the state file, as it holds. :param words: control files as they are.
        :param node: as it was just read. :param files: that it gave.
        """
        reading, found, within_ns = now.reading, now.found, wait_ns(now.found.settings)
        freed, taken = self._owned.freed(now), self._owned.taken(now, words)
        pool = found.cpu.default if found.cpu is not None and held.speaks else None
        lost_ns = self._pool.at(pool, node.written_ago_s(), now_ns)
        holding = self._in_force.of(now, freed, taken, within_ns, now_ns, lost_ns, silent=held.silent)
        limited, unlimited = huge_pages.enforced((*holding.claims, *now.beside), words.limits_huge_pages)
        file = found.cpu if held.speaks else None
        entered = self._entered.of(file)
        return SourceReading(
            claims=replace(found.claims, claims=limited),
            held=(*holding.owed, *now.making, *(now.forgotten if held.speaks else ())),
            give_back_s=found.settings.reconcile_s + SLACK_S,
            layers=_layers(now, now_ns, lost_ns, node, silent=not held.speaks),
            state_files=self._stated.of(now, held, now_ns, within_ns, node.times),
            state_folder=node.places.target(node.kubelet_root),
            gauges=self._gauges(files, node, replace(found, cpu=file), entered, now_ns) if node.metrics else None,
            missing=(*not_read(now.missing, held), *unlimited, *_unmeasured(node.no_metrics)),
            left_out=self._lost_twice(now, now_ns),
            # A node on which nothing runs may have no cgroup for it.
            complete=reading.containers is not None and (reading.cgroups is not None or not reading.containers),
        )

    def _lost_twice(self, now: Followed, now_ns: int) -> tuple[MissingPart, ...]:
        """Name containers that run by the runtime's word, and whose cgroup is not where it says, at two readings.

        One whose cgroup was there has ended: a cgroup with processes cannot be removed. The runtime lists it as running
        until its shim's report has been handled; what is listed for longer is named all the same.
        """
        gone = {one.id: one for one in now.gone}
        before, self._lost = self._lost, {one: self._lost.get(one, now_ns) for one in gone}
        ending = {one for one in gone.keys() & self._had if now_ns - self._lost[one] < ENDING_NS}
        self._had = frozenset(now.ids | ending)
        return tuple(
            MissingPart(part=one.name, reason=one.reason)
            for one in now.gone
            if one.id in before and one.id not in ending
        )

    def _gauges(
        self, files: dict[str, bytes], node: LiveNode, found: NodeClaims, entered: dict[str, int], now_ns: int
    ) -> Gauges:
        """Return the kubelet's gauges beside the state file that was read just before them."""
        self.gauges_due_ns = now_ns + GAUGES_EVERY_NS
        metrics = files[METRICS].decode("utf-8", "replace") if METRICS in files else None
        return gauges_beside(manager_gauges(metrics), node.no_metrics, found.cpu, found.settings, entered)


def _layers(
    now: Followed, now_ns: int, stated_ns: int | None, node: LiveNode, *, silent: bool
) -> tuple[LayerView, ...]:
    """Return what each layer says. :param stated_ns: since when the state file's word is another one, if it is."""
    asked_ns = {} if node.memory is None else node.memory.answers.asked_ns
    views = now.layers(now_ns, asked_ns, silent=silent)
    if stated_ns is None:
        return views
    return (*(replace(one, at_ns=stated_ns) for one in views if one.layer is Layer.CHECKPOINT), *views)


def _unmeasured(problem: str) -> tuple[MissingPart, ...]:
    """Return what is missing where metrics were to be read and could not be. :param problem: why; empty: they were."""
    return (MissingPart(part="metrics", reason=f"{problem}: {COSTS['metrics']}"),) if problem else ()
