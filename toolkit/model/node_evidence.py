"""What a node says about its own containers, beside what is observed: a part of the evidence, whatever reads it."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.evidence.following import FollowEvidence
from toolkit.model.evidence.stated import StatedEvidence
from toolkit.model.evidence.window import ClaimChangeEvidence


@dataclass(frozen=True, kw_only=True)
class NodeEvidence(FollowEvidence, StatedEvidence, ClaimChangeEvidence):
    """Read when a window ends; a part is unknown where no source states it.

    What it states (runtime, state files, layers), how it was followed where it was read while it works, and what it
    promised anew just after the window.
    """


NOTHING = NodeEvidence()
