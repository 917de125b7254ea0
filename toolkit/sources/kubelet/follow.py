"""A kubelet's node to follow: read again and again, with the memory that its promises need.

What a container of the shared pool holds is what the kubelet asked for last. The state file is ahead of that by up to a
reconcile period: CPUs that the pool has lost are given back then, CPUs that it has won may be used at any time from now
on. While the state file is absent or says nothing (the kubelet restarts), what it said last holds.

Source: docs/facts.md K-kubelet-1, K-kubelet-2, "Normal on a healthy node".
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.evidence.following import Gauges
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_reading import MissingPart, NodeReading
from toolkit.sources.kubelet import huge_pages, live_files
from toolkit.sources.kubelet.allocated import allocations
from toolkit.sources.kubelet.asked import asked_of as asked_values
from toolkit.sources.kubelet.bundle import reading_of
from toolkit.sources.kubelet.claims import NodeClaims, node_claims
from toolkit.sources.kubelet.control_words import ControlWords
from toolkit.sources.kubelet.entered import Entered
from toolkit.sources.kubelet.followed_claims import Followed
from toolkit.sources.kubelet.followed_words import ended, present, unmeasured
from toolkit.sources.kubelet.gauges import gauges_beside, manager_gauges
from toolkit.sources.kubelet.held_state import HeldState
from toolkit.sources.kubelet.in_force import InForce
from toolkit.sources.kubelet.live import NOTHING, LiveNode, says_anything
from toolkit.sources.kubelet.memory import Memory, may_have_begun
from toolkit.sources.kubelet.metrics_text import FILE as METRICS
from toolkit.sources.kubelet.metrics_text import kubelet_version
from toolkit.sources.kubelet.modelled import STATIC
from toolkit.sources.kubelet.overdue import SLACK_S
from toolkit.sources.kubelet.owned import Owned
from toolkit.sources.kubelet.places import CGROUP_ROOT, PROC, SYS, Places
from toolkit.sources.kubelet.reading_pace import ReadingPace
from toolkit.sources.kubelet.reconciles import PoolChanges
from toolkit.sources.kubelet.settings import Settings, settings
from toolkit.sources.kubelet.signs import Signs
from toolkit.sources.kubelet.stated import Stated, not_read
from toolkit.sources.kubelet.static_pods import StaticPods
from toolkit.sources.live_source import EVERY_S, SourceReading

ENDING_NS = 5_000_000_000
"""So long a runtime may list a container as running whose cgroup is gone: a busy machine's shims wait for a CPU."""
TURNS, A_TURN = 10, 10
"""Readings in which every container's status is asked for once, whatever it says; more where these would ask for more
than so many in one.
"""
GAUGES_EVERY_NS = 10_000_000_000
"""An answer has thousands of lines, and costs the kubelet time to make."""


class KubeletSource:
    """A :class:`LiveSource`. :param every_s: what was asked for. :param kept: reads control files."""

    name = "kubelet"

    def __init__(self, places: Places, every_s: float = EVERY_S, kept: KeptFiles = NONE_KEPT) -> None:
        self._places = places
        self._pace = ReadingPace(every_s)
        self._begun = False
        self._memory = Memory(kept)
        self._lost: dict[str, int] = {}
        """Containers whose cgroup was not found at the last reading: since when, by id."""
        self._had: frozenset[str] = frozenset()
        """Ids of containers that had a cgroup, and of those that are ending."""
        self._files: dict[str, bytes] = {}
        self._parsed: NodeReading | None = None
        self._whole: tuple[_Parts, NodeReading] | None = None
        self._found: tuple[NodeReading, NodeClaims] | None = None
        """What the last reading was made of, itself, and its claims: most readings say the same again."""
        self._followed: Followed | None = None
        self._known: tuple[NodeReading, str, Settings] | None = None
        self._turn = 0
        self._differed: frozenset[str] = frozenset()
        """Ids of containers whose layers did not agree at the last reading."""
        self._spared: tuple[str, ...] = ()
        """Ids of those that agreed then, and at the one before as far as they were there, and whose turn it is not."""
        self._gauges_due_ns, self._entered = 0, Entered()
        self._held, self._stated = HeldState(), Stated()
        self._static = StaticPods()
        self._in_force, self._pool = InForce(), PoolChanges()
        self._owned = Owned()
        self._signs = Signs(places)
        self._watched: tuple[Path, ...] = ()
        self._version = ""
        """The kubelet's, by its metrics, which are not read each time, or by its program; it stays while none runs."""
        self._sysfs: str | None = None
        self._online: str | None = None
        """The machine, which says what the options promise; read again when other CPUs are online."""

    def read(self) -> SourceReading:
        """Read state files, configuration, runtime and cgroups; not the threads."""
        return self._pace.take(self._read)

    def _read(self) -> SourceReading:
        now_ns = time.monotonic_ns()
        due = now_ns >= self._gauges_due_ns
        words = ControlWords(self._places.cgroup_root or self._places.below(CGROUP_ROOT), self._memory.kept)
        self._ask_again(words)
        node = LiveNode(self._places, memory=self._memory, metrics=due)
        files = node.files_of_all()
        metrics = files[METRICS].decode("utf-8", "replace") if METRICS in files else None
        reading = self._complete(self._reading_of(files), metrics, now_ns)
        self._watched = self._signs.of(node.kubelet_root, reading.cgroups)
        if not (self._begun or says_anything(reading)):
            raise InputError(str(self._places.root), NOTHING, "a kubelet's node")
        self._begun = True
        found = self._claims_of(reading)
        if self._followed is None or self._followed.reading is not reading or self._followed.found is not found:
            self._followed = Followed(reading, found, ended(self._parsed))
        now = self._followed
        freed, taken = self._owned.freed(now), self._owned.taken(now, words)
        within_ns = _wait_ns(found.settings)
        pool = found.cpu.default if found.cpu is not None and self._held.speaks else None
        lost_ns = self._pool.at(pool, node.written_ago_s(), now_ns)
        silent = self._held.silent
        holding = self._in_force.of(now, freed, taken, within_ns, now_ns, lost_ns, silent=silent)
        limited, unlimited = huge_pages.enforced((*holding.claims, *now.beside), words.limits_huge_pages)
        self._remember(now)
        read = due and self._places.metrics is not None
        entered = self._entered.of(found.cpu if self._held.speaks else None)
        return SourceReading(
            claims=replace(found.claims, claims=limited),
            held=(*holding.owed, *now.making, *(now.forgotten if self._held.speaks else ())),
            give_back_s=found.settings.reconcile_s + SLACK_S,
            layers=self._layers(now, now_ns, lost_ns),
            state_files=self._stated.of(now, self._held, now_ns, within_ns, node.times),
            state_folder=self._places.target(node.kubelet_root),
            gauges=self._gauges(metrics, node.no_metrics, found, entered, now_ns) if read else None,
            missing=(*not_read(now.missing, self._held), *unlimited, *unmeasured(node.no_metrics)),
            left_out=self._lost_twice(now, now_ns),
            # A node on which nothing runs may have no cgroup for it.
            complete=reading.containers is not None and (reading.cgroups is not None or not reading.containers),
        )

    def _layers(self, now: Followed, now_ns: int, stated_ns: int | None) -> tuple[LayerView, ...]:
        """Return what each layer says. :param stated_ns: since when the state file's word is another one, if it is."""
        views = now.layers(now_ns, self._memory.answers.asked_ns, silent=not self._held.speaks)
        if stated_ns is None:
            return views
        return (*(replace(one, at_ns=stated_ns) for one in views if one.layer is Layer.CHECKPOINT), *views)

    def _reading_of(self, files: dict[str, bytes]) -> NodeReading:
        """Make a reading of files; those that say the same as the last time were made one of then.

        When each was read is not in it: it would be of then. Metrics are read once in a while, and stay apart.
        """
        same = {name: data for name, data in files.items() if name not in ("times.json", METRICS)}
        if same != self._files or self._parsed is None:
            self._files, self._parsed = same, reading_of(same, whole=False)
        return self._parsed

    def _complete(self, parsed: NodeReading, metrics: str | None, now_ns: int) -> NodeReading:
        """Add what was said before and holds: the kubelet's version, the machine, the state file while it is silent.

        The same object as long as all that it is made of is the same.
        """
        self._version = kubelet_version(metrics) or parsed.kubelet_version or self._version
        known = self._settings_of(parsed)
        if known.config.cpu_manager_policy == STATIC and self._online != parsed.online:
            self._online = parsed.online
            self._sysfs = live_files.sysfs_lines(self._places.sys or self._places.below(SYS))
        proc = self._places.proc or self._places.below(PROC)
        state = self._held.cpu(parsed.cpu_state, now_ns, _wait_ns(known), partial(may_have_begun, proc))
        static = self._static.of(parsed, known.config)
        parts = _Parts(parsed=parsed, version=self._version, sysfs=self._sysfs, state=state, static=static)
        if self._whole is None or not parts.same(self._whole[0]):
            reading = replace(
                parsed,
                kubelet_version=self._version,
                sysfs=self._sysfs or parsed.sysfs,
                cpu_state=state,
                static_of=static,
                missing=tuple(one for one in parsed.missing if one.part != "version" or not self._version),
                containers=present(parsed.containers),
            )
            self._whole = parts, reading
        return self._whole[1]

    def _settings_of(self, parsed: NodeReading) -> Settings:
        if self._known is None or self._known[0] is not parsed or self._known[1] != self._version:
            self._known = parsed, self._version, settings(replace(parsed, kubelet_version=self._version))
        return self._known[2]

    def _claims_of(self, reading: NodeReading) -> NodeClaims:
        """Return the claims; those of the last reading where nothing else is said in this one."""
        if self._found is None or self._found[0] != reading:
            self._found = (reading, node_claims(reading, lambda _cgroup, _page_bytes: True))
        return self._found[1]

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
        self, metrics: str | None, problem: str, found: NodeClaims, entered: dict[str, int], now_ns: int
    ) -> Gauges:
        """Return the kubelet's gauges beside the state file that was read just before them."""
        self._gauges_due_ns = now_ns + GAUGES_EVERY_NS
        file = found.cpu if self._held.speaks else None
        return gauges_beside(manager_gauges(metrics), problem, file, found.settings, entered)

    @property
    def every_s(self) -> float:
        """Seconds until it is read again without a sign."""
        return self._pace.every_s

    def signs(self) -> Sequence[Path]:
        """State files, the tree of pods, and the control files of the containers' CPUs."""
        return self._watched

    def _remember(self, now: Followed) -> None:
        """Spare the statuses of containers whose layers agree, all but some in turn: 0.7 ms each add up.

        Of one that has just begun to agree the runtime is asked once more: whether it followed its cgroup, or something
        else wrote that and put it back.
        """
        self._turn += 1
        agree = {one: index for index, one in now.agree}
        before, self._differed = self._differed, frozenset(now.subjects.keys() - agree.keys())
        turns = max(TURNS, -(-len(agree) // A_TURN))
        self._spared = tuple(one for one, index in agree.items() if one not in before and (index + self._turn) % turns)

    def _ask_again(self, words: ControlWords) -> None:
        """Ask for those, too, whose quota or limit of memory is not what was asked for: it was resized, or it drifts.

        A kubelet that writes down what it has allocated promises by that, and need not be asked.
        """
        spared, last = self._spared, self._followed
        if last is not None and not allocations(last.reading):
            known = last.subjects
            spared = tuple(
                one
                for one in spared
                if one in known and words.as_asked(known[one].limited or known[one].cgroup, asked_values(known[one]))
            )
        self._memory.answers.need_not_ask(spared)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a whole reading is made of. :param parsed: of the files. :param state: of the state file, as it holds."""

    parsed: NodeReading
    version: str
    sysfs: str | None
    state: str | None
    static: dict[str, dict[str, Any]]

    def same(self, other: _Parts) -> bool:
        """Whether both make the same reading; the files' is made anew where anything in them differs."""
        mine, others = (self.version, self.sysfs, self.state), (other.version, other.sysfs, other.state)
        return self.parsed is other.parsed and self.static is other.static and mine == others


def _wait_ns(known: Settings) -> int:
    """So long a reconcile may take, seen from here; and a restart: the same time, since no shorter one is known."""
    return int((known.reconcile_s + SLACK_S) * 1e9)
