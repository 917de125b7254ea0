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
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Runtime
from toolkit.model.evidence.following import (
    NOT_RECORDED,
    UNREAD_NS,
    EndedLife,
    Following,
    Forgotten,
    Gauges,
    GivingBack,
    Granted,
    Making,
)
from toolkit.model.layers import Layer, LayerView
from toolkit.model.node_evidence import NodeEvidence
from toolkit.model.state_files import StateReading
from toolkit.session.following.stretches import Stretch, cut, cut_lasting, ended, of_window
from toolkit.sources.live_source import SourceReading

KEPT_NS = 600_000_000_000
"""How long what was followed by something else is kept: longer than a window is open or waits to be judged."""
AFTER_NS = 2_000_000_000
"""So long a window's end waits for a reading: whether the runtime followed a cgroup that changed is in it."""
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
        self._back: list[GivingBack] = []
        self._granted: list[Granted] = []
        self._forgotten: list[Forgotten] = []
        self._renewed: list[ClaimChange] = []
        """Their times are CLOCK_MONOTONIC."""
        self._lives: deque[_Ended] = deque(maxlen=MAX_TIMES)
        self._making: dict[str, Making] = {}
        """By cgroup, which is no other container's later."""
        self._attempts: deque[_Attempt] = deque(maxlen=MAX_TIMES)
        self._gauges: deque[Gauges] = deque(maxlen=MAX_STATES)
        """Their times are CLOCK_MONOTONIC."""
        self._began_ns = 0
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
            if reading.gauges is not None:
                self._note_gauges(reading.gauges, at_ns)
            self._note_forgotten(reading, at_ns)
            for cgroup in reading.making:
                known = self._making.get(cgroup, Making(cgroup=cgroup, since_ns=at_ns, until_ns=at_ns))
                self._making[cgroup] = replace(known, until_ns=at_ns)
            self._forget(at_ns)

    def failed(self, reason: str, at_ns: int) -> None:
        """Note that it could not be read."""
        with self._lock:
            missing = (f"{self._source}: {reason}",)
            self._attempts.append(_Attempt(at_ns=at_ns, answered=False, missing=missing))

    def gives_back(self, claim: str, cpus: CpuSet, at_ns: int, within_s: float) -> int:
        """Note CPUs that must be given back from now on; returns until when (CLOCK_MONOTONIC).

        :param within_s: 0: at once, whatever time there was before.
        """
        with self._lock:
            open_now = next((one for one in self._back if one.claim == claim and one.until_ns is None), None)
            # Of a set that is owed at once another part may become so: since when it is stays.
            anew = open_now is None or (not within_s and open_now.limit_ns > at_ns)
            since_ns = at_ns if open_now is None or anew else open_now.since_ns
            self._back = [one for one in self._back if one is not open_now]
            limit_ns = since_ns + int(within_s * 1e9)
            self._back.append(GivingBack(claim=claim, cpus=cpus, since_ns=since_ns, limit_ns=limit_ns))
            return limit_ns

    def gave_back(self, claim: str, at_ns: int) -> None:
        """Note that it has."""
        with self._lock:
            self._back = ended(self._back, claim, at_ns)

    def last_asked_without(self, claim: str, cpus: CpuSet) -> int | None:
        """Return when the runtime said last that a claim's container was not asked to have all of these CPUs."""
        with self._lock:
            stretches = self._views.get((claim, Layer.RUNTIME), ())
            return next((one.last_ns for one in reversed(stretches) if not cpus <= (one.value.cpus or cpus)), None)

    def granted(self, claim: str, cpus: CpuSet, since_ns: int, until_ns: int) -> None:
        """Note CPUs that are watched as a claim's from now on, and may have been its own since the reading before."""
        with self._lock:
            self._granted.append(Granted(claim=claim, cpus=cpus, since_ns=since_ns, until_ns=until_ns))

    def renewed(self, claim: Claim, at_ns: int) -> None:
        """Note what a claim is promised from now on."""
        with self._lock:
            self._renewed.append(ClaimChange(at_ns=at_ns, claim=claim))

    def ended(self, claim: str, cgroup: str, at_ns: int) -> None:
        """Note that a claim has ended: what was said of it is said of the next life no more."""
        self.gave_back(claim, at_ns)
        with self._lock:
            self._forgotten = ended(self._forgotten, claim, at_ns)
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
                giving_back=tuple(
                    replace(one, limit_ns=one.limit_ns - start_ns) for one in cut_lasting(self._back, start_ns, end_ns)
                ),
                gauges=cut(self._gauges, start_ns, end_ns),
                granted=cut(self._granted, start_ns, end_ns, beyond=True),
                forgotten=cut_lasting(self._forgotten, start_ns, end_ns),
                making=cut(self._making.values(), start_ns, end_ns),
                renewed=tuple(
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

    def _note_forgotten(self, reading: SourceReading, at_ns: int) -> None:
        """A reading in which the runtime did not answer says of no claim that it has what it must have."""
        said = {one.claim: one for one in reading.forgotten}
        found = []
        for one in self._forgotten:
            again = said.pop(one.claim, None) if one.until_ns is None else None
            if again is not None:
                found.append(replace(again, since_ns=one.since_ns))
            elif one.until_ns is None and reading.complete:
                found.append(replace(one, until_ns=at_ns))
            else:
                found.append(one)
        self._forgotten = [*found, *(replace(one, since_ns=at_ns) for one in said.values())]

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
        self._back = [one for one in self._back if one.until_ns is None or one.until_ns >= now_ns - KEPT_NS]
        self._granted = [one for one in self._granted if one.until_ns >= now_ns - KEPT_NS]
        self._forgotten = [one for one in self._forgotten if one.until_ns is None or one.until_ns >= now_ns - KEPT_NS]
        self._making = {key: one for key, one in self._making.items() if one.until_ns >= now_ns - KEPT_NS}
        self._renewed = [one for one in self._renewed if one.at_ns >= now_ns - KEPT_NS]
        while self._lives and self._lives[0].until_ns < now_ns - KEPT_NS:
            self._lives.popleft()


def _said(
    layer: Layer, stretches: list[Stretch[LayerView]], start_ns: int, end_ns: int, old_ns: int
) -> list[LayerView]:
    """Return what a layer stated of a claim in a window. :param old_ns: what a state file said before is not said."""
    return of_window(
        stretches,
        start_ns,
        end_ns,
        after_ns=AFTER_NS if layer is Layer.RUNTIME else 0,
        old_ns=old_ns if layer is Layer.CHECKPOINT else None,
    )
