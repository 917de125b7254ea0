"""What the witness of actions gives; its rows are in :mod:`toolkit.model.actions`."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.actions import AffinityChange, CgroupMove
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, kw_only=True)
class ActionEvidence:
    """Of one window."""

    cgroup_moves: tuple[CgroupMove, ...] = ()
    """Moves of tasks of claims, the first of each CPU."""
    left_before: tuple[CgroupMove, ...] = ()
    """By which tasks left a claim, or all pods, before this window, that ran in it on a watched CPU, or whose children
    did: ``at_ns`` is negative."""
    affinity_changes: tuple[AffinityChange, ...] | None = None
    """By tasks of claims, to other tasks, or reaching a watched CPU: the first of each CPU; ``None``: not observed."""


@stage_value
@dataclass(frozen=True, kw_only=True)
class ActionCoverage:
    """How much of it was reported."""

    cgroup_moves_dropped: int = 0
    affinity_changes_dropped: int = 0
    leaves_dropped: int = 0
    """Events lost, of ``cgroup_moves`` (leaves by themselves) and ``affinity_changes``: no counter of the ledger is
    affected."""
