"""The timeline of a window, worked out once for all rules: what claims may have held, and what ran outside all that."""

from __future__ import annotations

from toolkit.model.evidence import Evidence
from toolkit.model.held import OWING, Held, Why
from toolkit.timeline import ran, saved
from toolkit.timeline.held import Timeline
from validators.queries.memo import memoised


@memoised
def lent(evidence: Evidence) -> Timeline:
    """Return what claims may have held beyond what is promised, and from when on nothing is known."""
    return saved.lent(evidence)


@memoised
def owed(evidence: Evidence) -> tuple[Held, ...]:
    """Return the CPUs that claims had, and had to give back."""
    return tuple(row for row in evidence.held if row.why in OWING)


@memoised
def forgotten(evidence: Evidence) -> tuple[Held, ...]:
    """Return what asked for CPUs of its own, and had none by the state file."""
    return tuple(row for row in evidence.held if row.why is Why.FORGOTTEN)


@memoised
def being_made(evidence: Evidence) -> tuple[Held, ...]:
    """Return the cgroups of containers that were being made."""
    return tuple(row for row in evidence.held if row.why is Why.BEING_MADE)


@memoised
def asked(evidence: Evidence) -> ran.Asked:
    """Return the ledger's rows and offenders as the timeline has them."""
    return ran.asked(evidence, lent(evidence))
