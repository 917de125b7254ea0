"""When a control file was read, and what it may hold then: by which version of a promise, or none yet.

Source: docs/facts.md K-kubelet-1 (a resize), "Normal on a healthy node".
"""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model.claim_changes import ClaimChange
from toolkit.model.claims import Claim
from toolkit.model.evidence import CgroupFiles, Transition
from toolkit.model.evidence.following import UNREAD_NS
from toolkit.model.runtimes import SETUP_NS
from validators.queries.life import STARTS, Life


def promised_at(at_ns: int, promised: tuple[ClaimChange, ...]) -> tuple[Claim, ...]:
    """Return what a value read then may be by: the version in force, and one that was just being replaced by the next.

    Whatever resizes writes the file some time before the new promise is known here, or a moment after it.
    """
    ends = [*(one.at_ns for one in promised[1:]), None]
    return tuple(
        one.claim
        for one, end in zip(promised, ends, strict=True)
        if one.at_ns - UNREAD_NS <= at_ns and (end is None or at_ns < end + SETUP_NS)
    )


def read_at(first: CgroupFiles | None, life: Life) -> int:
    """Return when a cgroup was read first: when the window opened, or when its claim began to be watched in it."""
    return 0 if first is None else min(max(0, first.at_ns - life.evidence.start_monotonic_ns), life.end_ns)


def made_later(at_ns: int, transitions: Iterable[Transition]) -> bool:
    """Return whether the cgroup came after that moment: it was not there to be read."""
    return any(change.what in STARTS and change.start_at_ns >= at_ns for change in transitions)
