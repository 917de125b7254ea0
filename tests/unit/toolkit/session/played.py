"""A played clock, and a played observation whose windows know their length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.unit.validators.evidence_builder import evidence
from toolkit.model.evidence import Evidence
from toolkit.session.engine.composing import Observed


class Clock:
    """Time that passes when something waits."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Opened:
    """Plays :class:`toolkit.session.engine.observe.Observation`: each window knows its length."""

    def __init__(self, clock: Clock, stopped: list[int], stop_at_s: float | None = None) -> None:
        self.clock, self.stopped, self.stop_at_s = clock, stopped, stop_at_s
        self.began_s, self.lengths_s = clock.now_s, []
        self.stall_s: dict[int, float] = {}
        self.judging_s = 0.0
        self.closed = False

    def _pass(self, seconds: float) -> None:
        self.clock.now_s += max(0.0, seconds)

    def wait(self, seconds: float | None, progress: Callable[[float], None]) -> None:
        assert seconds is not None
        if self.stopped:
            return
        end_s = self.clock.now_s + max(0.0, seconds) + self.stall_s.pop(len(self.lengths_s) + 1, 0.0)
        if self.stop_at_s is not None and self.stop_at_s <= end_s:
            self._pass(self.stop_at_s - self.clock.now_s)
            self.stopped.append(15)
        else:
            self._pass(end_s - self.clock.now_s)
        progress(0.0)

    def poll(self, timeout_s: float) -> None:
        self._pass(timeout_s)

    def _observed(self) -> Observed:
        length_s = self.clock.now_s - self.began_s
        self.lengths_s.append(round(length_s, 3))
        self.began_s = self.clock.now_s
        self._pass(self.judging_s)
        return Observed(evidence=replace(evidence(), duration_ns=round(length_s * 1e9)), canaries=evidence())

    def turn(self) -> Observed:
        return self._observed()

    def close(self) -> Observed:
        assert not self.closed
        self.closed = True
        return self._observed()

    def snapshot(self) -> Evidence:
        assert not self.closed, "there is no window to look at"
        return evidence()
