"""What the ledger noted of each thread id (``probes/switches/notes.h``), as far as user space asks."""

from __future__ import annotations

import struct
from pathlib import Path

from probes.bpfsys import Map
from probes.switches.records import NOTE_SEEN, NOTES_PER_LINE

_U32 = struct.Struct("=I")


def note_lines(root: Path) -> int:
    """Return how many lines hold a note for every thread id that there may be."""
    thread_ids = int((root / "proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    return thread_ids // NOTES_PER_LINE + 1


class Notes:
    """The map. :param lines: that it has."""

    def __init__(self, table: Map, lines: int) -> None:
        self._table, self._lines = table, lines

    def seen(self, tid: int) -> bool:
        """Say whether the ledger ever saw this thread switched out."""
        line = self._table.lookup(_U32.pack(tid // NOTES_PER_LINE)) or b""
        note = line[tid % NOTES_PER_LINE * 8 :][:8]
        return bool(int.from_bytes(note, "little") & NOTE_SEEN)

    def forget(self) -> None:
        """Forget every thread: a number may be another one's next time, and hidden threads were never seen."""
        self._table.zero(self._lines)
