"""From the masks that were read to their part of the evidence: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.masks.strays import Stray, stray_spots
from probes.readings import Part, Reading, Readings
from toolkit.model.blind_spots import BlindSpot, ScanGap, Witness
from toolkit.model.evidence import ThreadMask
from toolkit.model.evidence.masks import MaskCoverage, MaskEvidence
from toolkit.text.wording import and_more

MAX_GAPS = 8
"""Claims of which a gap is reported by name; more are reported together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskReading(Reading):
    """The masks of one window.

    :param dropped: by claim: distinct masks that were not kept because there were too many.
    :param strays: by claim: threads that are not in its cgroup of a v1 hierarchy.
    :param doubts: by claim: of which threads the kernel's list of tasks says other than ``/proc``.
    """

    masks: tuple[ThreadMask, ...] = ()
    scans: int = 0
    gaps: tuple[ScanGap, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    strays: Mapping[str, tuple[Stray, ...]] = field(default_factory=dict)
    doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def decode(self, readings: Readings) -> Part:
        """Return the masks, and how closely they were followed."""
        frame = readings.frame
        gaps = tuple(gap for gap in self.gaps if frame.is_about(gap.claim))
        lost = (
            BlindSpot(
                text=f"{count} thread masks of {name} were not kept: too many distinct ones",
                witnesses=(Witness.MASKS,),
                claim=name,
            )
            for name, count in sorted(self.dropped.items())
        )
        strays = (spot for name, rows in sorted(self.strays.items()) for spot in stray_spots(name, rows))
        doubts = (
            BlindSpot(
                text=texts[0] + and_more(len(texts) - 1, "threads", aside=True),
                witnesses=(Witness.MASKS,),
                claim=name,
            )
            for name, texts in sorted(self.doubts.items())
        )
        return Part(
            evidence=MaskEvidence(thread_masks=tuple(row for row in self.masks if frame.is_about(row.claim))),
            coverage=MaskCoverage(proc_scans=self.scans, scan_gaps=gaps),
            spots=(*gap_spots(gaps), *lost, *strays, *doubts),
        )


def gap_spots(gaps: tuple[ScanGap, ...]) -> list[BlindSpot]:
    """Name the claims whose threads went unread for longer than the stated resolution."""
    late = sorted(
        (gap for gap in gaps if gap.longest_ns > gap.allowed_ns), key=lambda gap: (-gap.longest_ns, gap.claim)
    )
    together = len(late) > MAX_GAPS
    return [
        BlindSpot(
            text=f"thread masks of {f'{len(late)} claims' if together else gap.claim} were not read for "
            f"{gap.longest_ns / 1e9:.2f} s (from {gap.at_ns / 1e9:.2f} s on; stated: {gap.allowed_ns / 1e9:.2f} s)",
            witnesses=(Witness.MASKS,),
            claim=None if together else gap.claim,
            start_at_ns=gap.at_ns,
            end_at_ns=gap.at_ns + gap.longest_ns,
        )
        for gap in (late[:1] if together else late)
    ]
