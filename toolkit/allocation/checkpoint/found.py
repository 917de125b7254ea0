"""The state files that a kubelet finds at its start, and how long they stay as they are.

A file of an older version is read as it is and written anew, in this kubelet's version, by the first change.
Source: recordings ("restart"); kubernetes v1.36.2, pkg/kubelet/cm/cpumanager/state/state_checkpoint.go.
"""

from __future__ import annotations

from typing import NamedTuple


class Checkpoints(NamedTuple):
    """Texts of the two state files, ``None`` where there is none."""

    cpu: str | None = None
    memory: str | None = None


class FoundFiles:
    """Files whose text differs from what this kubelet would write for the same state."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, str]] = {}

    def note(self, name: str, text: str | None, as_written: str | None) -> None:
        """Remember a file as found. :param as_written: the same state as this kubelet would write it."""
        if text is not None and as_written is not None and text != as_written:
            self._found[name] = (text, as_written)

    def forget_changed(self, now: Checkpoints) -> None:
        """Forget the files that have been written since."""
        self._found = {name: pair for name, pair in self._found.items() if now._asdict()[name] == pair[1]}

    def instead_of(self, written: Checkpoints) -> Checkpoints:
        """Return the texts on the disk: those found where nothing has been written since."""
        return written._replace(**{name: text for name, (text, _) in self._found.items()})

    def __bool__(self) -> bool:
        return bool(self._found)
