"""The sources of evidence, by name: a doubt and a rule meet where they name the same one."""

from __future__ import annotations

from enum import StrEnum


class Witness(StrEnum):
    """A source of evidence; each can be doubted by itself."""

    SWITCHES = "switches"
    """The switch ledger and the CPU-clock sampler (eBPF)."""
    MASKS = "masks"
    """Thread masks from ``/proc/<pid>/task/<tid>/status``."""
    FILES = "files"
    """Cgroup control files read back."""
    BANDWIDTH = "bandwidth"
    """``cpu.stat`` and ``cpuacct`` deltas."""
