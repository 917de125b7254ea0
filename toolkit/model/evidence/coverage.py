"""How much of what happened was seen: the part of the evidence that says how far the rest can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.blind_spots import BlindSpot
from toolkit.model.evidence.actions import ActionCoverage
from toolkit.model.evidence.cgroups import BandwidthCoverage, FileCoverage
from toolkit.model.evidence.controls import ControlCoverage
from toolkit.model.evidence.interrupts import InterruptCoverage
from toolkit.model.evidence.masks import MaskCoverage
from toolkit.model.evidence.node import OwnCoverage, SystemCoverage
from toolkit.model.evidence.switches import SwitchCoverage
from toolkit.model.evidence.writes import WriteCoverage
from toolkit.model.serde import stage_value


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage(
    ControlCoverage,
    WriteCoverage,
    ActionCoverage,
    InterruptCoverage,
    FileCoverage,
    BandwidthCoverage,
    MaskCoverage,
    SystemCoverage,
    OwnCoverage,
    SwitchCoverage,
):
    """How much of what happened was seen: of each witness, and of the whole."""

    blind_spots: tuple[str, ...] = ()
    """The texts of ``blindness``; in runs from before it they are all there is, and weaken nothing."""
    blindness: tuple[BlindSpot, ...] = ()
    """What was not seen, each with the witnesses that it leaves doubtful."""
