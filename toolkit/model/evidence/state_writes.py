"""Evidence of the witness of state files: which process wrote the kubelet's state files, and when.

Source: fanotify(7); docs/facts.md K-kubelet-4, K-kubelet-5.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.serde import stage_value

WRITTEN, REPLACED, REMOVED = "written", "replaced", "removed"


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class StateWrite:
    """A process changed a state file.

    :param at_ns: when, since the window opened, up to 10 ms late. Negative: before it, of each file the last by a
        kubelet and the last by anything else.
    :param file: ``cpu_manager_state`` or ``memory_manager_state``.
    :param did: ``written`` (in its place), ``replaced`` (another file was renamed to it) or ``removed``.
    :param pid: the process. 0: this pid namespace does not show it.
    :param comm: its name; empty: it had ended, and nothing kept it.
    :param own: pinproof itself.
    """

    at_ns: int
    file: str
    did: str
    pid: int
    comm: str
    own: bool = False


@stage_value
@dataclass(frozen=True, kw_only=True)
class StateWriteEvidence:
    """Of one window."""

    state_writes: tuple[StateWrite, ...] | None = None
    """In order of time; ``None``: not observed."""
