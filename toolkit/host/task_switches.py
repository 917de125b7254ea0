"""The kernel's own count of a task's context switches: a second witness for the switch ledger.

Source: proc(5), ``voluntary_ctxt_switches`` and ``nonvoluntary_ctxt_switches`` in ``/proc/pid/status``.
"""

from __future__ import annotations

from pathlib import Path

from toolkit.host.cgroup_mounts import read_control


def context_switches(pid: int, root: Path = Path("/")) -> int | None:
    """Return how often the task was switched out since it began; ``None`` if it is gone."""
    text = read_control(root / f"proc/{pid}/status")
    if text is None:
        return None
    counts = [line.split(":")[1] for line in text.splitlines() if "ctxt_switches:" in line]
    return sum(int(count) for count in counts) if len(counts) == 2 else None
