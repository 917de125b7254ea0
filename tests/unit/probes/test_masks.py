"""The masks' own decoder: which rows are a window's, and what it says that it did not see. No kernel."""

from __future__ import annotations

from dataclasses import replace

from probes.masks.decoder import MAX_GAPS, MaskReading, gap_spots
from probes.readings import Readings, Watched
from tests.unit.probes.readings import CLAIM, DB, FRAME, MASK, MASKS, SECOND
from toolkit.model.blind_spots import ScanGap, Witness
from toolkit.model.evidence.masks import MaskCoverage, MaskEvidence


def gap(claim: str, longest_ns: int, allowed_ns: int = SECOND) -> ScanGap:
    """Return how closely a claim was followed."""
    return ScanGap(claim=claim, scans=3, longest_ns=longest_ns, at_ns=5, allowed_ns=allowed_ns)


def test_rows_of_others_are_not_this_ones() -> None:
    """Canaries are watched by the same scans: what is about them is left out, masks and gaps alike."""
    other = Watched(claim=replace(CLAIM, name="canary"), ident=DB + 1, cpus=CLAIM.cpus or FRAME.watched)
    reading = MaskReading(
        masks=(MASK, replace(MASK, claim="canary")), scans=3, gaps=(gap("db", 1), gap("canary", 9 * SECOND))
    )
    part = reading.decode(Readings(replace(FRAME, others=(other,)), ()))

    assert part.evidence == MaskEvidence(thread_masks=(MASK,))
    assert part.coverage == MaskCoverage(proc_scans=3, scan_gaps=(gap("db", 1),))
    assert list(part.spots) == []


def test_a_gap_is_a_doubt_only_beyond_what_is_stated() -> None:
    """Of the claim, of the masks, and from when to when; as long as stated is none."""
    (spot,) = gap_spots((gap("web", SECOND), gap("db", SECOND + 1)))

    assert (spot.claim, spot.witnesses, spot.start_at_ns, spot.end_at_ns) == ("db", (Witness.MASKS,), 5, SECOND + 6)


def test_many_gaps_are_one_doubt_of_all_claims() -> None:
    """Up to eight are named, the longest first; more are one, which names no claim and so weakens each."""
    named = gap_spots(tuple(gap(f"c{number}", SECOND + 1 + number) for number in range(MAX_GAPS)))
    (together,) = gap_spots(tuple(gap(f"c{number}", SECOND + 1 + number) for number in range(MAX_GAPS + 1)))

    assert [spot.claim for spot in named] == [f"c{number}" for number in reversed(range(MAX_GAPS))]
    assert together.claim is None
    assert f"{MAX_GAPS + 1} claims" in together.text


def test_masks_that_were_not_kept_are_a_doubt_of_their_claim() -> None:
    """Each claim that lost some is named with the number."""
    part = replace(MASKS, dropped={"web": 2, "db": 1}).decode(Readings(FRAME, ()))

    assert [(spot.claim, spot.witnesses, spot.text[0]) for spot in part.spots] == [
        ("db", (Witness.MASKS,), "1"),
        ("web", (Witness.MASKS,), "2"),
    ]
