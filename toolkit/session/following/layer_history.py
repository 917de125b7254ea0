"""What a source has said, since when and until when: what the node states in each window. Bounded by what is said.

One thread reads and writes it down, others ask for a window's part.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise

from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim
from toolkit.model.cpu_tuning import CpuSettings
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Runtime
from toolkit.model.evidence.following import (
    NOT_RECORDED,
    UNREAD_NS,
    EndedLife,
    Following,
    Gauges,
)
from toolkit.model.held import OWING, Held, Why
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_evidence import NodeEvidence
from toolkit.model.state_files import StateReading
from toolkit.session.following.stretches import Stretch, cut, of_window
from toolkit.sources.live_source import SourceReading
from toolkit.timeline.held import Timeline

KEPT_NS = 600_000_000_000
"""How long what was followed by something else is kept: longer than a window is open or waits to be judged."""
AFTER_NS = 2_000_000_000
"""So long a window's end waits for a reading: what the runtime, or what pins, says of a changed cgroup is in it."""
MAX_STATES = 64
MAX_TIMES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """The source was asked. ``answered``: it said what runs, and what was promised."""

    at_ns: int
    answered: bool
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """A life of a claim, and what was stated of it. ``until_ns``: when its end was known (CLOCK_MONOTONIC)."""

    claim: str
    cgroup: str
    until_ns: int
    views: dict[Layer, list[Stretch[LayerView]]]


class LayerHistory:
    """The values of each layer in the order of time, and what else a source states.

    :param source: its name.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._views: dict[tuple[str, Layer], list[Stretch[LayerView]]] = {}
        self._states: deque[Stretch[StateReading]] = deque(maxlen=MAX_STATES)
        self._held = Timeline()
        """Its times, too, are CLOCK_MONOTONIC."""
        self._renewed: list[ClaimChange] = []
        """Their times are CLOCK_MONOTONIC."""
        self._lives: deque[_Ended] = deque(maxlen=MAX_TIMES)
        self._attempts: deque[_Attempt] = deque(maxlen=MAX_TIMES)
        self._gauges: deque[Gauges] = deque(maxlen=MAX_STATES)
        """Their times are CLOCK_MONOTONIC."""
        self._cpu_settings: CpuSettings | None = None
        """As of the last reading that said them."""
        self._began_ns = self._read_ns = 0
        """Since when it is followed, and when the last reading began."""
        self._runtime: Runtime | None = None
        self._slack_ns = 0
        self._silent_ns: int | None = None
        """Since when the state file says nothing of any claim; ``None``: it does, or is none of this source."""
        self._bound_ns = 0
        """So long after it was read last what a state file says stands, although the node was asked since then."""

    def begin(self, at_ns: int) -> None:
        """Note that it is followed from now on: what lies before is in no window, however long ago it was read."""
        with self._lock:
            self._began_ns = at_ns

    def read(self, reading: SourceReading, at_ns: int) -> None:
        """Write down a reading."""
        with self._lock:
            missing = tuple(f"{part.part}: {part.reason}" for part in reading.missing)
            self._attempts.append(_Attempt(at_ns=at_ns, answered=reading.complete, missing=missing))
            self._runtime = reading.runtime
            period_s = reading.claims.reconcile_period_s or 0.0
            self._slack_ns = max(0, int((reading.give_back_s - period_s) * 1e9))
            self._bound_ns = int(reading.give_back_s * 1e9)
            for view in reading.layers:
                if view.layer is Layer.CHECKPOINT and self._silent_ns is not None:
                    self._note_silence(view, self._silent_ns)
                self._note(view)
            says = any(view.layer is Layer.CHECKPOINT for view in reading.layers)
            self._silent_ns = None if says else at_ns if self._silent_ns is None else self._silent_ns
            for state in reading.state_files:
                self._note_state(state, at_ns)
            self._cpu_settings = reading.cpu_settings or self._cpu_settings
            if reading.gauges is not None:
                self._note_gauges(reading.gauges, at_ns)
            self._note_made(reading, at_ns)
            self._note_forgotten(reading, at_ns)
            self._read_ns = at_ns
            self._forget(at_ns)

    def failed(self, reason: str, at_ns: int) -> None:
        """Note that it could not be read."""
        with self._lock:
            missing = (f"{self._source}: {reason}",)
            self._attempts.append(_Attempt(at_ns=at_ns, answered=False, missing=missing))

    def owing(self) -> dict[str, Held]:
        """Return what claims must give back now, by name."""
        with self._lock:
            return {row.claim: row for row in self._held.open(*OWING)}

    def owes(self, row: Held, within_s: float, at_ns: int) -> Held:
        """Note CPUs that must be given back; returns the row, which says when they are due (CLOCK_MONOTONIC).

        :param row: its begin is since when, at ``at_ns`` at the latest. :param within_s: how long it has; what is taken
            by another is due at once, whatever time there was before.
        """
        with self._lock:
            before = self._held.open(*OWING, claim=row.claim)
            same = tuple(one for one in before if not _is_anew(one, row))
            # Of a set that is owed another part may become so: since when it is stays.
            since_ns = min((one.from_ns for one in same), default=row.from_ns)
            now = replace(row, from_ns=since_ns, due_ns=since_ns + int(within_s * 1e9))
            if now not in before:
                # Each CPU is owed by one row: a debt that is late is found once, whatever of it goes on.
                self._held = self._held.close(at_ns, set(before) - set(same)).instead(now, same, at_ns)
            return now

    def gave_back(self, claim: str, at_ns: int) -> None:
        """Note that it has."""
        with self._lock:
            self._held = self._held.close(at_ns, self._held.open(*OWING, claim=claim))

    def last_asked_without(self, claim: str, cpus: CpuSet) -> int | None:
        """Return when the runtime said last that a claim's container was not asked to have all of these CPUs."""
        with self._lock:
            stretches = self._views.get((claim, Layer.RUNTIME), ())
            return next((one.last_ns for one in reversed(stretches) if not cpus <= (one.value.cpus or cpus)), None)

    def granted(self, claim: str, cpus: CpuSet, since_ns: int, until_ns: int) -> None:
        """Note CPUs that are watched as a claim's from now on, and may have been its own since the reading before."""
        with self._lock:
            self._held = self._held.append(granted(claim, cpus, since_ns, until_ns))

    def renewed(self, claim: Claim, at_ns: int) -> None:
        """Note what a claim is promised from now on."""
        with self._lock:
            self._renewed.append(ClaimChange(at_ns=at_ns, claim=claim))

    def ended(self, claim: str, cgroup: str, at_ns: int) -> None:
        """Note that a claim has ended: what was said of it is said of the next life no more."""
        with self._lock:
            self._held = self._held.close(at_ns, self._held.open(*OWING, Why.FORGOTTEN, claim=claim))
            views = {key[1]: self._views.pop(key) for key in [key for key in self._views if key[0] == claim]}
            if views:
                self._lives.append(_Ended(claim=claim, cgroup=cgroup, until_ns=at_ns, views=views))

    def node_evidence(self, start_ns: int, duration_ns: int) -> NodeEvidence:
        """Return what was stated in a window, times since it opened."""
        end_ns = start_ns + duration_ns
        with self._lock:
            asked_ns = max((attempt.at_ns for attempt in self._attempts if attempt.at_ns <= end_ns), default=start_ns)
            old_ns = asked_ns - self._bound_ns
            views = [
                view
                for (_, layer), stretches in self._views.items()
                for view in _said(layer, stretches, start_ns, end_ns, old_ns)
            ]
            lives = []
            for life in self._lives:
                said = [
                    view for layer, one in life.views.items() for view in _said(layer, one, start_ns, end_ns, old_ns)
                ]
                if life.until_ns > end_ns:
                    views += said  # it ended later
                elif life.until_ns >= start_ns and said:
                    until_ns = life.until_ns - start_ns
                    lives.append(EndedLife(claim=life.claim, cgroup=life.cgroup, until_ns=until_ns, layers=tuple(said)))
            return NodeEvidence(
                runtime=self._runtime,
                state_files=tuple(
                    of_window(self._states, start_ns, end_ns, old_ns=old_ns, before_ns=2 * self._bound_ns)
                ),
                layers=tuple(views),
                following=self._following(start_ns, end_ns),
                gauges=cut(self._gauges, start_ns, end_ns),
                cpu_settings=self._cpu_settings,
                held=self._held.cut(start_ns, end_ns + 1).rows,
                claim_changes=tuple(
                    replace(one, at_ns=one.at_ns - start_ns)
                    for one in self._renewed
                    if end_ns < one.at_ns <= end_ns + UNREAD_NS
                ),
                ended_lives=tuple(lives),
            )

    def _following(self, start_ns: int, end_ns: int) -> Following:
        known = [attempt for attempt in self._attempts if attempt.at_ns <= end_ns]
        inside = [attempt for attempt in known if attempt.at_ns >= start_ns]
        times = [attempt.at_ns for attempt in inside if attempt.answered]
        before_ns = max((one.at_ns for one in known if one.answered and one.at_ns < start_ns), default=start_ns)
        edges = [min(start_ns, max(before_ns, self._began_ns)), *times, end_ns]
        vain = [attempt for attempt in inside or known[-1:] if not attempt.answered]
        # What was judged by such a word in this window stays so, whatever the next reading says.
        old_words = [line for attempt in inside for line in attempt.missing if NOT_RECORDED in line]
        return Following(
            source=self._source,
            readings=len(times),
            unanswered=len(vain),
            gap_ns=max(last - first for first, last in pairwise(edges)),
            slack_ns=self._slack_ns,
            missing=tuple(dict.fromkeys((*old_words, *(one for told in (*vain, *known[-1:]) for one in told.missing)))),
        )

    def _note(self, view: LayerView) -> None:
        stretches = self._views.setdefault((view.claim, view.layer), [])
        if stretches and replace(stretches[-1].value, at_ns=view.at_ns) == view:
            stretches[-1].last_ns = view.at_ns
        else:
            stretches.append(Stretch(view, view.at_ns, view.at_ns))

    def _note_silence(self, view: LayerView, at_ns: int) -> None:
        """Note that a state file said nothing before this: it is said anew, also if it is what it said before."""
        if (view.claim, view.layer) in self._views:
            self._note(replace(view, at_ns=at_ns, cpus=None, mems=None))

    def _note_state(self, state: StateReading, at_ns: int) -> None:
        if self._states and self._states[-1].value == state:
            self._states[-1].last_ns = at_ns
        else:
            self._states.append(Stretch(state, at_ns, at_ns))

    def _note_made(self, reading: SourceReading, at_ns: int) -> None:
        """A container is being made up to the last reading that says so. Its cgroup is no other container's later."""
        said = {row.cgroup: row for row in reading.held if row.why is Why.BEING_MADE}
        known = self._held.open(Why.BEING_MADE)
        self._held = self._held.close(self._read_ns + 1, [row for row in known if row.cgroup not in said])
        new = said.keys() - {row.cgroup for row in known}
        self._held = self._held.append(*(replace(said[cgroup], from_ns=at_ns) for cgroup in said if cgroup in new))

    def _note_forgotten(self, reading: SourceReading, at_ns: int) -> None:
        """A reading in which the runtime did not answer says of no claim that it has what it must have."""
        said = {row.claim: row for row in reading.held if row.why is Why.FORGOTTEN}
        known = {row.claim: row for row in self._held.open(Why.FORGOTTEN)}
        if reading.complete:
            self._held = self._held.close(at_ns, [row for name, row in known.items() if name not in said])
        for name, row in said.items():
            before = known.get(name)
            due_ns = at_ns + self._bound_ns if before is None else before.due_ns
            if before is None or replace(row, from_ns=before.from_ns, due_ns=due_ns) != before:
                # It goes on as it is now, and no moment is in two rows: what is late is late by the one time it had.
                ended = () if before is None else (before,)
                self._held = self._held.close(at_ns, ended).append(replace(row, from_ns=at_ns, due_ns=due_ns))

    def _note_gauges(self, gauges: Gauges, at_ns: int) -> None:
        last = self._gauges[-1] if self._gauges else None
        if last is not None and replace(last, since_ns=0, until_ns=0) == replace(gauges, since_ns=0, until_ns=0):
            self._gauges[-1] = replace(last, until_ns=at_ns)
        else:
            self._gauges.append(replace(gauges, since_ns=at_ns, until_ns=at_ns))

    def _forget(self, now_ns: int) -> None:
        for key, stretches in list(self._views.items()):
            if stretches[-1].last_ns < now_ns - KEPT_NS:
                del self._views[key]
            else:
                stretches[:-1] = [one for one in stretches[:-1] if one.last_ns >= now_ns - KEPT_NS]
        self._held = self._held.since(now_ns - KEPT_NS)
        self._renewed = [one for one in self._renewed if one.at_ns >= now_ns - KEPT_NS]
        while self._lives and self._lives[0].until_ns < now_ns - KEPT_NS:
            self._lives.popleft()


def granted(claim: str, cpus: CpuSet, since_ns: int, until_ns: int) -> Held:
    """Return what may have been a claim's since a reading that did not say so yet. :param until_ns: the last moment."""
    return Held(claim=claim, cpus=cpus, why=Why.GRANTED, from_ns=since_ns, to_ns=until_ns + 1, certain=False)


def _is_anew(before: Held, row: Held) -> bool:
    """Whether what is owed now is another debt: it had time until now, and has none any more."""
    return row.why is Why.TAKEN and before.due_ns is not None and before.due_ns > row.from_ns


def _said(
    layer: Layer, stretches: list[Stretch[LayerView]], start_ns: int, end_ns: int, old_ns: int
) -> list[LayerView]:
    """Return what a layer stated of a claim in a window. :param old_ns: what a state file said before is not said."""
    return of_window(
        stretches,
        start_ns,
        end_ns,
        after_ns=AFTER_NS if layer in (Layer.RUNTIME, Layer.PLUGIN) else 0,
        old_ns=old_ns if layer is Layer.CHECKPOINT else None,
    )
