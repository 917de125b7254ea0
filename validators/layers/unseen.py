"""Rule ``layers-agree`` on a still picture: what runs in pods and is in no claim, or has none of its layers.

What is normal: docs/facts.md "Normal on a healthy node".
"""

from __future__ import annotations

from toolkit.model.evidence import Evidence
from toolkit.model.verdict import Outcome, Verdict


def check(rule: str, evidence: Evidence) -> list[Verdict]:
    """Return a verdict of each container that runs by the runtime's word and of which nothing was read."""
    lost = evidence.picture.lost if evidence.picture is not None else ()
    return [
        Verdict(
            rule=rule,
            subject=one.part,
            outcome=Outcome.UNDECIDED,
            reason=f"it runs by the runtime's word, and nothing of it was read: {one.reason}",
            measures={},
        )
        for one in lost
    ]
