"""What consecutive windows of one watch come to: how many had which outcome, the worst of them, sums for each claim.

Its size depends on the number of claims, never on that of the windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.serde import stage_value
from toolkit.model.verdict import Outcome


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFound:
    """One window that did not pass.

    :param number: from 1 on; its directory is ``window-<number>``.
    :param reasons: ``rule subject outcome: reason``, the first few.
    """

    number: int
    outcome: Outcome
    started_at: str
    duration_s: float
    reasons: tuple[str, ...]


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSum:
    """The switch ledger's counters of one claim, over all windows and CPUs; the longest is the longest of one window.

    A time outside that goes on from one window into the next is counted in both, each with its part.
    """

    claim: str
    switches: int = 0
    run_ns: int = 0
    out_of_set_switches: int = 0
    out_of_set_ns: int = 0
    out_of_set_longest_ns: int = 0
    transition_ns: int = 0


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSums:
    """Sums over the windows. :param worst: failed before undecided, earlier before later; the first few."""

    count: int
    passed: int = 0
    failed: int = 0
    undecided: int = 0
    skipped: int = 0
    worst: tuple[WindowFound, ...] = ()
    claims: tuple[ClaimSum, ...] = ()
