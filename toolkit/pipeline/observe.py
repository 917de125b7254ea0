"""Claims -> evidence: open a window over cgroups that exist, with both canaries beside them, and close it again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from probes.observer import ObserveOptions, Observer, Violation
from toolkit.host.environment import read_environment
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Environment, Evidence
from toolkit.pipeline import canary
from toolkit.pipeline.standing import Standing

TICK_S = 0.05
"""How often user space looks for reports while it waits: well below the 100 ms in which a hog must be reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What to observe and for how long. ``duration_s`` ``None`` means: until interrupted.

    :param standing: probes and canaries that are there already; ``None``: loaded and started for this window alone.
    """

    run_id: str
    duration_s: float | None
    root: Path = Path("/")
    canary_escape: bool = False
    standing: Standing | None = None


class Observation:
    """One open window: look at it with :meth:`snapshot`, end it with :meth:`close`."""

    def __init__(
        self,
        observer: Observer,
        pair: canary.CanaryPair,
        root: Path,
        environment: Environment,
        report: Callable[[Violation], None],
    ) -> None:
        self.observer = observer
        self._pair, self._root, self._environment = pair, root, environment
        self._report = report
        self._reported_at_ns: int | None = None
        self._first_escape_ns = 0
        observer.open_window()
        self._planted = canary.planted_switches(pair, root)

    def poll(self, timeout_s: float) -> None:
        """Handle reports of violations for at most ``timeout_s``."""
        for violation in self.observer.poll(timeout_s):
            if violation.claim not in canary.NAMES:
                self._report(violation)
            elif violation.claim == canary.POSITIVE and self._reported_at_ns is None:
                self._reported_at_ns = violation.reported_at_ns
                self._first_escape_ns = violation.first_at_ns

    def snapshot(self) -> Evidence:
        """Return the evidence so far; the window stays open."""
        planted = self._planted_so_far()
        return self._finish(self.observer.snapshot(), planted)

    def close(self) -> Evidence:
        """Close the window and return everything observed."""
        planted = self._planted_so_far()
        return self._finish(self.observer.close_window(), planted)

    def _planted_so_far(self) -> dict[str, int]:
        # Read before the window ends, as the first reading comes after it began: the canaries run on while evidence is
        # gathered, and what they do then cannot have been seen.
        now = canary.planted_switches(self._pair, self._root)
        return {name: now[name] - self._planted[name] for name in now}

    def _finish(self, evidence: Evidence, planted: dict[str, int]) -> Evidence:
        evidence = replace(evidence, environment=self._environment)
        return canary.separate(evidence, self._pair, planted, self._reported_at_ns, self._first_escape_ns)


@contextmanager
def observation(
    claims: ClaimSet, window: Window, report: Callable[[Violation], None] = lambda _violation: None
) -> Iterator[Observation]:
    """Attach the probes, plant the canaries, open the window; everything is gone when the block ends.

    :param report: told of each violation's first details while the window is open.

    :raises HostUnsupportedError: no root, no BPF, no bcc, a pure v1 host.
    """
    environment = read_environment(window.root, window.standing.topology() if window.standing else None)
    ledger = window.standing.ledger if window.standing else None
    with (
        keep_off(claims.exclusive_cpus),
        _canaries(claims, environment.cpus_online, window) as pair,
        Observer(
            replace(claims, claims=claims.claims + pair.claims),
            root=window.root,
            options=None if ledger else options_for(len(claims.claims) + len(pair.claims)),
            ledger=ledger,
        ) as observer,
    ):
        yield Observation(observer, pair, window.root, environment, report)


def options_for(claims: int) -> ObserveOptions:
    """Return options for at least so many claims."""
    usual = ObserveOptions()
    return replace(usual, max_claims=max(usual.max_claims, claims))


def _canaries(claims: ClaimSet, online: CpuSet, window: Window) -> AbstractContextManager[canary.CanaryPair]:
    if window.standing is not None:
        return window.standing.canaries(claims, online, escape=window.canary_escape)
    return canary.canaries(claims, online, window.run_id, window.root, escape=window.canary_escape)


@contextmanager
def keep_off(cpus: CpuSet) -> Iterator[None]:
    """Keep our own threads off the exclusive CPUs while we watch, where other CPUs are left."""
    before = os.sched_getaffinity(0)
    wanted = before - set(cpus)
    if wanted:
        os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def observe(claims: ClaimSet, window: Window, progress: Callable[[float], None] = lambda _seconds: None) -> Evidence:
    """Observe for ``window.duration_s`` and return the evidence. ``progress`` is told the seconds that have passed."""
    with observation(claims, window) as open_window:
        start = time.monotonic()
        while window.duration_s is None or time.monotonic() - start < window.duration_s:
            left = TICK_S if window.duration_s is None else window.duration_s - (time.monotonic() - start)
            open_window.poll(max(0.0, min(TICK_S, left)))
            progress(time.monotonic() - start)
        return open_window.close()
