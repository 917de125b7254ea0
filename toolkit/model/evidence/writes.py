"""Evidence of the witness of writes: which task wrote which value to a control file.

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cpusets.rst; kernel/cgroup/cgroup.c (``cgroup_file_write``).
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ControlWrite:
    """A write to a control file of a claim's cgroup, or of one above it; also one that was refused.

    :param at_ns: when the kernel was done, since the window opened. Negative: before it, the last that was accepted of
        this file.
    :param hierarchy: ``v2``, or the controllers of the v1 hierarchy (``cpuset``).
    :param value: without white space at its ends; the first 63 bytes of it.
    :param value_bytes: how many bytes were written.
    :param errno: 0, or why the kernel refused.
    :param pid: the writer's process. :param tid: its thread. :param comm: the thread's name.
    :param own: pinproof wrote it.
    """

    at_ns: int
    cgroup: str
    hierarchy: str
    file: str
    value: str
    value_bytes: int
    errno: int
    pid: int
    tid: int
    comm: str
    own: bool = False


@stage_value
@dataclass(frozen=True, kw_only=True)
class WriteEvidence:
    """Of one window."""

    control_writes: tuple[ControlWrite, ...] | None = None
    """Writes to control files, in order of time, the first of each CPU; ``None``: not observed."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class WriteCoverage:
    """How much of it was reported."""

    control_writes_dropped: int = 0
    """Writes of ``control_writes`` that were lost: no counter of the ledger is affected."""
