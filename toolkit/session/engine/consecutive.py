"""Consecutive windows of one observation, each serialised, read back and judged when it has ended.

A window ends and the next begins at the same moment (:meth:`toolkit.session.engine.observe.Observation.turn`);
judging one takes place while the next is open. What is kept of a window that has been judged does not grow with their
number. Printing and saving are the caller's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from probes import garbage
from toolkit.model.claims import ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome
from toolkit.session.engine.composing import Observed
from toolkit.session.engine.observe import TICK_S, Observation
from toolkit.session.engine.record import NO_ORIGIN, Origin, Record, judged, texts_of
from toolkit.session.windows.counters import Counters, SessionState
from toolkit.session.windows.series import Detail, Series
from toolkit.session.windows.sums import Sums
from toolkit.store import WINDOW, digest_of, reread
from validators.registry import needed_s

WINDOW_S = 30.0
"""Length of a window unless something says otherwise."""
LEAST_S = 1.0
"""In less nothing can be seen often enough to be judged; a quota needs more, as its rule says. A rest of the duration
that is shorter belongs to the window before it, and a window that something ends goes on until it is so old."""
PATIENCE_S = 3.0
"""So long at most what asks to stop waits for that: quotas with periods of more than 150 ms are undecided then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One window that has ended. :param alone: the run has no other, and its directory is the run's own."""

    number: int
    record: Record
    last: bool

    @property
    def alone(self) -> bool:
        """Whether the run has no other window."""
        return self.last and self.number == 1


class Consecutive:
    """Use :meth:`windows`; :meth:`state` may be called by any thread meanwhile.

    :param path: of the run that will be saved.
    :param window_s: length of a window. :param duration_s: of all; ``None``: until something asks to stop.
    :param stopped: as in :class:`toolkit.session.engine.window.Window`.
    :param now: what is promised at this moment, where that changes: asked when a window opens.
    :param origin: saved with each window. :param detail: of what metrics count.
    """

    def __init__(
        self,
        opened: Observation,
        claims: ClaimSet,
        path: Path,
        *,
        window_s: float = WINDOW_S,
        duration_s: float | None = None,
        stopped: Sequence[int] = (),
        now: Callable[[], ClaimSet] | None = None,
        origin: Origin = NO_ORIGIN,
        detail: Detail = Detail.CLAIM,
    ) -> None:
        self._opened, self._path, self._origin = opened, path, origin
        self._claims = claims if now is None else still_watched(claims, opened.observer.subjects)
        self._now = now or (lambda: claims)
        self._window_s, self._duration_s, self._stopped = window_s, duration_s, stopped
        self._began_s = time.monotonic()
        self._lock = threading.Lock()
        self._counters = Counters(series=Series(detail))
        self._last: Result | None = None
        self._over = False
        self._ending = False
        """Whether a window has ended, and is not judged yet: it is neither open nor among the counters."""
        self._promised = self._claims
        """What was promised when the window opened that :meth:`state` shows."""
        self._seen: Evidence | None = None
        """What something saw last of the window that is open, or ending."""
        self._sums = Sums()

    def windows(
        self,
        progress: Callable[[float], None] = lambda _seconds: None,
        first: Callable[[Observation], None] | None = None,
    ) -> Iterator[Judged]:
        """Yield each window when it has been judged; the next is open by then.

        What takes them lets go of one before the next is taken: nothing else holds what it weighs.

        :param progress: called with the seconds that have passed.
        :param first: what happens in the first window; its length, and that of all, count from the end of it.
        """
        if first is not None:
            first(self._opened)
            self._began_s = time.monotonic()
        before = ""
        number, began_s, end_s = 1, self._began_s, self._end(self._began_s, self._began_s)
        while True:
            self._opened.wait(end_s - time.monotonic(), lambda _seconds: progress(time.monotonic() - self._began_s))
            last = bool(self._stopped) or self._is_last(end_s)
            if last:
                self._grow_up(began_s)
            # A window is judged by what was promised when it opened; what came since is among its claim changes.
            promised, self._claims = self._claims, self._now()
            seen = self._ended(last=last)
            began_s = time.monotonic()
            end_s = self._end(end_s, began_s)
            path = self._path if last and number == 1 else self._path / WINDOW.format(number)
            texts = texts_of(claims=promised, evidence=seen.evidence, canaries=seen.canaries, origin=self._origin)
            # A window of many claims is tens of megabytes: what was seen is not kept beside what is read back, and
            # nothing of it beside the next one.
            del seen
            record = judged(path, texts, before=before)
            before = digest_of(record.texts["result"])
            # What asks finds the window either as it was seen before or among the sums: counters never go back.
            with self._lock:
                self._counters.promised(record.claims, record.evidence)
                self._counters.add(record.evidence, record.ran.rows)
                self._counters.judged(record.result)
                self._last, self._promised = record.result, self._claims
                self._ending, self._seen = False, None
            self._sums.add(number, record.result, record.ran.rows)
            yield Judged(number=number, record=record, last=last)
            if last:
                return
            del texts, record
            garbage.seek()
            number += 1

    @property
    def outcome(self) -> Outcome:
        """The worst of the windows so far."""
        return self._sums.outcome

    def sums(self) -> Result:
        """Return the sums of the windows so far. Only the thread that takes the windows may call it."""
        return self._sums.result()

    def result(self) -> Result:
        """Return what all windows come to, as it will be read from its file."""
        return reread(self._sums.result())

    def state(self) -> SessionState:
        """Return what is known at this moment: the sums over the windows that have ended, and the open one.

        While one ends, which may take until the node has answered, and is judged it is as something saw it last.
        """
        with self._lock:
            if not (self._over or self._ending):
                self._seen = self._opened.snapshot()
            return SessionState(
                counters=self._counters.copy(),
                open=self._seen,
                promised=self._promised,
                last=self._last,
                window_s=self._window_s,
            )

    def _ended(self, *, last: bool) -> Observed:
        with self._lock:
            self._ending, self._over = True, last
        return self._opened.close() if last else self._opened.turn()

    def _end(self, before_s: float, now_s: float) -> float:
        """Return when the window that begins now shall end; ``before_s``: when the one before should have.

        At multiples of the length, so that nothing adds up; where there is no half of one left (this machine stood
        still, or judging takes longer than a window) the row begins anew.
        """
        end_s = before_s + self._window_s
        if end_s - now_s < self._window_s / 2:
            end_s = now_s + self._window_s
        if self._duration_s is None:
            return end_s
        all_s = self._began_s + self._duration_s
        return all_s if all_s - end_s < self._least_s() else end_s

    def _is_last(self, end_s: float) -> bool:
        return self._duration_s is not None and end_s >= self._began_s + self._duration_s

    def _grow_up(self, began_s: float) -> None:
        least_s = min(self._least_s(), PATIENCE_S, self._duration_s or PATIENCE_S)
        while (left_s := began_s + least_s - time.monotonic()) > 0:
            self._opened.poll(min(TICK_S, left_s))

    def _least_s(self) -> float:
        """Return how long a window must be, so that it says more than that it was too short."""
        return min(self._window_s, max(LEAST_S, needed_s(self._claims)))


def still_watched(claims: ClaimSet, names: Container[str]) -> ClaimSet:
    """Leave out those whose cgroup is gone before a window begins: they are promised nothing in it.

    :param names: of the subjects that are watched.
    """
    kept = tuple(claim for claim in claims.claims if claim.name in names or not claim.kind.carries_tasks)
    return replace(claims, claims=kept)
