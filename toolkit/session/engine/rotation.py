"""Which windows of a long watch stay on disk: at most so many, and what was found stays longest.

Beyond the number the window goes that says least: passed and skipped before undecided, undecided before failed, and of
those the oldest. The sums and the worst windows (``result.json`` of the run) are of all windows, and are written before
one of them is removed: what is removed is evidence, never a verdict that was not counted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from toolkit.disk import remove_directory
from toolkit.errors import InputError
from toolkit.model.result import Result
from toolkit.model.verdict import Outcome
from toolkit.session.engine.consecutive import Judged
from toolkit.store import save_windows_result

_FULL = frozenset({os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT)})
_SAYS_LEAST = (Outcome.PASSED, Outcome.UNDECIDED, Outcome.FAILED)


def surplus(saved: Iterable[tuple[int, Outcome]], keep: int) -> tuple[int, ...]:
    """Return the numbers of the windows that go, in the order in which they go.

    :param saved: number and outcome of each window on disk. :param keep: how many may stay.
    """

    def order(window: tuple[int, Outcome]) -> tuple[int, int]:
        number, outcome = window
        # A skipped window says no more than one that passed.
        return _SAYS_LEAST.index(Outcome.PASSED if outcome is Outcome.SKIPPED else outcome), number

    windows = sorted(saved, key=order)
    return tuple(number for number, _ in windows[: max(0, len(windows) - keep)])


class Rotation:
    """Saves the windows of one run and removes those that are too many.

    :param path: of the run. :param keep: windows that stay on disk; ``None``: all.
    :param sums: the result of all windows so far.
    """

    def __init__(self, path: Path, keep: int | None, sums: Callable[[], Result]) -> None:
        self._path, self._keep, self._sums = path, keep, sums
        self._saved: dict[int, tuple[Outcome, Path]] = {}
        self._stuck: set[int] = set()
        """Windows that could not be removed, which has been said; it is tried again with each window."""

        self._in_vain = False
        """Room was made and was not enough, or others took it: no more windows go for that until one is saved."""

    def save(self, judged: Judged) -> None:
        """Save a window. A run of one window is that window, and stays.

        On a full disk the window that says least makes room, unless that is this one.

        :raises InputError: it cannot be written, or one that is too many cannot be removed (said once of each).
        """
        if self._keep is None or judged.alone:
            judged.record.save()
            return
        try:
            judged.record.save()
        except InputError as error:
            if error.found not in _FULL or self._in_vain or not self._make_room(judged):
                raise
            self._in_vain = True
            judged.record.save()
        self._in_vain = False
        self._saved[judged.number] = (judged.record.result.outcome, judged.record.saved.path)
        going = surplus(self._outcomes(), self._keep)
        if going:
            save_windows_result(self._path, self._sums())
        self._remove(going)

    def _outcomes(self) -> list[tuple[int, Outcome]]:
        return [(number, outcome) for number, (outcome, _) in self._saved.items()]

    def _make_room(self, judged: Judged) -> bool:
        """Remove the window that says least; returns whether there was one that says less than this."""
        (least,) = surplus([*self._outcomes(), (judged.number, judged.record.result.outcome)], len(self._saved))
        if least == judged.number:
            return False
        # The sums first, as always; where nothing can be written they have room only afterwards.
        with suppress(InputError):
            save_windows_result(self._path, self._sums())
        self._remove([least])
        save_windows_result(self._path, self._sums())
        return True

    def _remove(self, numbers: Iterable[int]) -> None:
        failed: list[InputError] = []
        for number in numbers:
            try:
                remove_directory(self._saved[number][1])
            except InputError as error:
                if number not in self._stuck:
                    failed.append(error)
                self._stuck.add(number)
            else:
                del self._saved[number]
                self._stuck.discard(number)
        if failed:
            raise failed[0]
