"""From everything that was read of a window to its evidence, in one place: readings of the probes and of the session.

What the session knows besides the probes are readings like theirs: of the controls
(:class:`toolkit.session.engine.canary.ControlReading`), of what was promised anew, of what the node says. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from probes.build import build
from probes.readings import Part, Reading, Readings
from probes.subjects import Violation
from toolkit.model.claim_changes import ClaimChange
from toolkit.model.evidence import Evidence
from toolkit.model.node_evidence import NodeEvidence
from toolkit.session.engine import canary


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading(Reading):
    """What the node itself stated when the window ended, and what was promised anew while it was open, in its order."""

    node_evidence: NodeEvidence
    changes: tuple[ClaimChange, ...] = ()

    def decode(self, readings: Readings) -> Part:
        """Give it as it is: what a node states is a part of the evidence."""
        del readings
        node = self.node_evidence
        return Part(evidence=replace(node, claim_changes=(*self.changes, *node.claim_changes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was seen in a window: of the claims that are judged, and beside it of the canaries, in the same type."""

    evidence: Evidence
    canaries: Evidence


def compose(
    readings: Readings,
    *,
    cpu: int,
    planted: Mapping[str, int],
    reported: Violation | None,
    changes: tuple[ClaimChange, ...],
    node_evidence: NodeEvidence,
) -> Observed:
    """Return the evidence of a window, and that of its controls.

    :param readings: of the probes: about the claims that are judged, and about the canaries.
    :param cpu, planted, reported: as in :class:`toolkit.session.engine.canary.ControlReading`.
    """
    beside = build(readings.about(canary.NAMES))
    own: tuple[Reading, ...] = (
        canary.ControlReading(cpu=cpu, planted=planted, seen=beside, reported=reported),
        NodeReading(node_evidence=node_evidence, changes=changes),
    )
    judged = readings.without(canary.NAMES)
    return Observed(evidence=build(replace(judged, all=(*judged.all, *own))), canaries=beside)
