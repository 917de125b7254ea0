"""Claims that a saved run speaks of and that its ``claims.json`` lacks: what was promised of them was not judged."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model.evidence import Evidence
from toolkit.model.result import Result, with_verdicts
from toolkit.model.verdict import Outcome, Verdict
from toolkit.session.windows.gone import GONE
from toolkit.store import StoredRun
from validators.rules import applied, cpuset_containment, evidence_health

ABOUT_EVERY_CLAIM = (applied.ID, cpuset_containment.ID)
"""Rules whose subjects are all claims, and nothing else."""
MAX_NAMED = 5


def promised_names(run: StoredRun) -> set[str]:
    """Return the names of all claims of a run, also of those that came while it went on or right after it."""
    changed = (change.claim for change in run.evidence.claim_changes)
    return {claim.name for claim in (*run.claims.claims, *changed, *run.evidence.later)}


def lost_of_run(run: StoredRun) -> tuple[str, ...]:
    """Return the names that the evidence or the result have, and the claims have not."""
    said = subjects(run.result) if run.result is not None else ()
    return lost([*said, *_named(run.evidence)], promised_names(run))


def lost(said: Iterable[str], promised: set[str]) -> tuple[str, ...]:
    """Return the names without a promise, in order."""
    return tuple(sorted(set(said) - promised - {GONE}))


def subjects(result: Result) -> Iterable[str]:
    """Return the claims that a result speaks of."""
    return (verdict.subject for verdict in result.verdicts if verdict.rule in ABOUT_EVERY_CLAIM)


def with_lost(result: Result, names: tuple[str, ...]) -> Result:
    """Add a verdict that is undecided: a claim that was taken out must not count as kept."""
    if not names:
        return result
    named = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    verdict = Verdict(
        rule=evidence_health.ID,
        subject="claims",
        outcome=Outcome.UNDECIDED,
        reason=f"claims.json lacks claims that evidence.json or result.json name: {named}",
        measures={"claims_missing_count": len(names)},
    )
    return with_verdicts(result, (*result.verdicts, verdict))


def _named(evidence: Evidence) -> Iterable[str]:
    """Yield the claim of every row that is one claim's."""
    yield from (row.claim for row in evidence.cpu_use)
    yield from (row.claim for row in evidence.usage_bins)
    yield from (row.claim for row in evidence.thread_masks)
    yield from (row.claim for row in evidence.bandwidth)
    yield from (row.claim for row in evidence.transitions)
    yield from (row.claim for row in evidence.coverage.scan_gaps)
