"""One reversible change of something that is not ours, as the journal writes it down. A value; nothing is done here.

:mod:`toolkit.apply.changes` makes and unmakes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from toolkit.model.serde import stage_value


class ChangeKind(StrEnum):
    """What is changed."""

    CONTROL = "control"
    """One control file of the kernel (cgroup limit, ``online`` of a CPU, affinity of an interrupt) is written."""
    CONSEQUENCE = "consequence"
    """A control file that the kernel rewrites because of another change: put back, never written first."""
    STATE_FILE = "state-file"
    """A state file of the kubelet gets another content."""
    CGROUP = "cgroup"
    """A cgroup of ours is made among another's; whatever runs in it is ours too."""
    MEMBER = "member"
    """A process is moved from one cgroup to one of ours."""


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class HostChange:
    """Which fields count depends on ``kind``.

    ``control``, ``consequence``, ``state-file``: ``path`` of the file, its content ``before`` and ``after``.
    ``control`` with ``via``: this is written before ``before`` when it is put back (an interrupt whose mask allows
    several CPUs stays on the one that it is on).
    ``cgroup``: ``path`` of the cgroup, below the root of each of ``hierarchies``.
    ``member``: process ``pid`` that began at ``start_time``, cgroups ``before`` and ``after``, ``hierarchies``.
    """

    kind: ChangeKind
    path: str = ""
    before: str = ""
    after: str = ""
    via: str = ""
    hierarchies: tuple[str, ...] = ()
    pid: int = 0
    start_time: int = 0
