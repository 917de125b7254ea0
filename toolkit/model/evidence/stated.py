"""What a node itself states about its containers: what made them, its state files, each layer's CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model.cpu_tuning import CpuSettings
from toolkit.model.layers import LayerView
from toolkit.model.serde import stage_value
from toolkit.model.state_files import StateReading


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What made the containers' cgroups: ``cgroupfs`` (pinproof itself), ``runc`` or ``crun`` with its version."""

    name: str
    version: str = ""


@stage_value
@dataclass(frozen=True, kw_only=True)
class StatedEvidence:
    """Nothing where no source states it: claims that come from a file."""

    runtime: Runtime | None = None
    layers: tuple[LayerView, ...] = ()
    state_files: tuple[StateReading, ...] = ()
    cpu_settings: CpuSettings | None = None
    """Read last in the window; ``None``: not read, or nothing was promised of it."""
