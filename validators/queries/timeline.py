"""The timeline of a window, worked out once for all rules: what claims may have held, and what ran outside all that."""

from __future__ import annotations

from toolkit.model.evidence import Evidence
from toolkit.timeline import ran, saved
from toolkit.timeline.held import Timeline
from validators.queries.memo import memoised


@memoised
def lent(evidence: Evidence) -> Timeline:
    """Return what claims may have held beyond what is promised, and from when on nothing is known."""
    return saved.lent(evidence)


@memoised
def asked(evidence: Evidence) -> ran.Asked:
    """Return the ledger's rows and offenders as the timeline has them."""
    return ran.asked(evidence, lent(evidence))
