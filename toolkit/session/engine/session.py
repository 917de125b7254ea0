"""The one engine: open a window, let something happen in it, close it, serialise and read back, judge.

``run``, negative controls, ``inject``, churn, ``watch`` and the pytest plugin are its callers; printing and saving are
theirs. What is judged is what was read back from the text that is saved (:mod:`toolkit.session.engine.record`).
Source: ``docs/principles.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from probes.observer import Violation
from toolkit.model.claims import Claim, ClaimSet
from toolkit.session.engine.consecutive import WINDOW_S, Consecutive
from toolkit.session.engine.observe import Observation, observation
from toolkit.session.engine.record import NO_ORIGIN, Origin, Record, recorded
from toolkit.session.engine.window import Window
from toolkit.session.windows.series import Detail

Act = Callable[[Observation], None]
"""What happens while a window is open: it waits at least; when it returns the window is closed."""


class Session:
    """Probes attached and canaries planted. Use :func:`session`; its first window is open already.

    :param opened: for what happens inside windows, and between them.
    """

    def __init__(self, opened: Observation, claims: ClaimSet) -> None:
        self.opened = opened
        self._claims = claims

    def window(
        self,
        path: Path,
        act: Act,
        *,
        claims: ClaimSet | None = None,
        origin: Origin = NO_ORIGIN,
        rescue: bool = True,
    ) -> Record:
        """Observe one window and judge it. Nothing is written.

        :param path: where it will be saved.
        :param claims: as they are when the window opens, where they are others than those of the session.
        :param origin: saved with it. :param rescue: as :func:`recorded`.
        """
        if self.opened.observer.window is None:  # the first is open since the session began
            self.opened.open()
        act(self.opened)
        seen = self.opened.close()
        return recorded(
            path,
            claims=claims or self._claims,
            evidence=seen.evidence,
            canaries=seen.canaries,
            origin=origin,
            rescue=rescue,
        )

    def consecutive(
        self,
        path: Path,
        *,
        window_s: float = WINDOW_S,
        duration_s: float | None = None,
        now: Callable[[], ClaimSet] | None = None,
        origin: Origin = NO_ORIGIN,
        detail: Detail = Detail.CLAIM,
    ) -> Consecutive:
        """Return windows that follow each other without a gap. Not with :meth:`window`.

        :param path: of the run.
        :param now, origin, detail: as in :class:`toolkit.session.engine.consecutive.Consecutive`.
        """
        return Consecutive(
            self.opened,
            self._claims,
            path,
            window_s=window_s,
            duration_s=duration_s,
            stopped=self.opened.stopped,
            now=now,
            origin=origin,
            detail=detail,
        )


@contextmanager
def session(
    claims: ClaimSet, window: Window, report: Callable[[Violation], None] = lambda _violation: None
) -> Iterator[Session]:
    """Attach the probes, plant the canaries, open the first window; everything is gone when the block ends.

    :raises HostUnsupportedError: no root, no BPF, no bcc, a pure v1 host.
    :raises InputError: claims that cannot be watched here.
    """
    with observation(replace(claims, claims=ledgered(claims)), window, report) as opened:
        yield Session(opened, claims)


def ledgered(claims: ClaimSet) -> tuple[Claim, ...]:
    """Return the claims that the probes count tasks for.

    A pod's or QoS class's own cgroup runs no tasks. If it were counted for, a task in a container that nothing claims
    would be taken for its own, and not for a stranger's. Its files and counters are read as an ancestor's.
    """
    below = [claim.cgroup for claim in claims.claims if claim.kind.carries_tasks]
    return tuple(
        claim
        for claim in claims.claims
        if claim.kind.carries_tasks or not any(one.startswith(claim.cgroup.rstrip("/") + "/") for one in below)
    )


def watched(claims: ClaimSet, window: Window, path: Path) -> Record:
    """Observe for ``window.duration_s``, in which nothing is done, and judge."""
    with session(claims, window) as one:
        return one.window(path, lambda opened: opened.wait(window.duration_s), rescue=False)
