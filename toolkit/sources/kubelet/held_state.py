"""``cpu_manager_state`` while the kubelet restarts: what it said last holds until it says something again.

Absent while the kubelet is down, then for 50 ms a pool without entries, then as before; no cgroup changes meanwhile.
Source: docs/facts.md K-kubelet-4, "Normal on a healthy node".
"""

from __future__ import annotations

from functools import lru_cache

from toolkit.allocation.checkpoint.state_files import cpu_state_file
from toolkit.model.state_files import CpuStateFile

_read = lru_cache(maxsize=2)(cpu_state_file)
"""A file says the same at most readings, and its text is all that is read of it."""


class HeldState:
    """What the file said last; :meth:`cpu` with each reading of it."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._known: CpuStateFile | None = None
        self._back_ns: int | None = None
        self.silent = False
        """Whether the file of the last reading says nothing that can be compared."""
        self.spoilt: CpuStateFile | None = None
        """The file of the last reading where its checksum is wrong: what was said before holds."""

    def cpu(self, text: str | None, now_ns: int, wait_ns: int) -> str | None:
        """Return what holds now. :param text: of the file; ``None``: absent. :param wait_ns: a reconcile, and slack."""
        found = None if text is None else _read(text)
        known, self.spoilt = self._known, None
        nothing = found is None or bool(found.problem) or not (found.default or found.entries or found.pods)
        if known is None:
            self._take(text, found if found is not None and found.checksum_ok and not nothing else None)
            self.silent = found is None or (nothing and not found.problem)
            return None if self.silent else text
        if nothing:
            self.silent, self._back_ns = True, None
            return self._text
        assert found is not None
        if not found.checksum_ok:
            self.silent, self.spoilt = False, found
            return self._text
        emptied = bool(known.entries or known.pods) and not (found.entries or found.pods)
        if emptied and found.policy == known.policy:
            self._back_ns = now_ns if self._back_ns is None else self._back_ns
            if now_ns - self._back_ns < wait_ns:
                self.silent = True
                return self._text
        self._take(text, found)
        return text

    def _take(self, text: str | None, found: CpuStateFile | None) -> None:
        self.silent, self._back_ns = False, None
        if found is not None and not found.problem:
            self._text, self._known = text, found
