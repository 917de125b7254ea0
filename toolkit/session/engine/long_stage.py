"""A stage that is watched for longer than one window: consecutive windows, each judged and saved when it has ended.

A lost event or a CPU that goes offline taints its window and no other, and an hour needs no more memory than a minute.
What the scenario changes happens in the first window; those after it are judged by what was promised then.
Source: ``docs/principles.md``, "One engine".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.errors import InputError
from toolkit.model.claim_changes import ClaimChange, in_force
from toolkit.model.claims import ClaimSet
from toolkit.model.result import Result
from toolkit.session.engine.consecutive import WINDOW_S, Judged, still_watched
from toolkit.session.engine.record import Origin, Record
from toolkit.session.engine.rotation import Rotation
from toolkit.session.engine.session import Act, Session

Save = Callable[[Judged], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a long stage is cut, and what is done with each window.

    :param window_s: length of a window: what is watched for longer has several.
    :param keep: windows that stay on disk; ``None``: all.
    :param ended: called with each of several windows once it has been judged, and with what saves it.
    """

    window_s: float = WINDOW_S
    keep: int | None = None
    ended: Callable[[Judged, Save], None] = lambda judged, save: save(judged)


USUAL = Cut()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What came of watching a stage.

    :param record: of the last window. :param sums: of all windows; ``None``: there was one.
    :param unsaved: the first error of a window that could not be saved.
    :param error: what ended it before its time, after at least one window.
    """

    record: Record
    sums: Result | None = None
    unsaved: InputError | None = None
    error: Exception | None = None


def watch(
    one: Session,
    claims: ClaimSet,
    path: Path,
    cut: Cut,
    duration_s: float,
    *,
    action: Act | None = None,
    progress: Callable[[float], None] = lambda _seconds: None,
    origin: Origin,
) -> Watched:
    """Watch for ``duration_s``, window after window.

    :param action: what the scenario does when the first window has opened; the time counts from its end.
    """
    promised = [claims]

    def first(opened: object) -> None:
        del opened
        if action is not None:
            action(one.opened)
        promised[0] = afterwards(claims, one.opened.promised_anew)

    windows = one.consecutive(
        path,
        window_s=cut.window_s,
        duration_s=duration_s,
        now=lambda: still_watched(promised[0], one.opened.observer.subjects),
        origin=origin,
    )
    rotation = Rotation(path, cut.keep, windows.sums)
    judged: Judged | None = None
    unsaved: InputError | None = None
    ended_by: Exception | None = None
    try:
        for judged in windows.windows(progress, first):
            if judged.alone:
                break
            try:
                cut.ended(judged, rotation.save)
            except InputError as error:
                unsaved = unsaved or error
    except Exception as error:
        # What ends it takes nothing from the windows before.
        if judged is None:
            raise
        ended_by = error
    assert judged is not None, "the last window is yielded"
    sums = None if judged.alone else windows.result()
    return Watched(record=judged.record, sums=sums, unsaved=unsaved, error=ended_by)


def afterwards(claims: ClaimSet, changes: tuple[ClaimChange, ...]) -> ClaimSet:
    """Return what is promised in the windows after the one in which ``changes`` were made.

    Where a claim promises again what it did at first, it is the same: how much work it gets done was unknown only for
    the window in which others came and went.
    """
    at_first = {claim.name: claim for claim in claims.claims}
    now = []
    for claim in in_force(claims, changes).claims:
        before = at_first.get(claim.name, claim)
        now.append(before if replace(before, demand_cpus=claim.demand_cpus) == claim else claim)
    return replace(claims, claims=tuple(now))
