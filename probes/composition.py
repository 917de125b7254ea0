"""What an observer is composed of: the one place that names the witnesses."""

from __future__ import annotations

from pathlib import Path

from probes.actions.reader import Actions
from probes.builder import Request
from probes.cgroups.claimed_paths import ClaimedPaths
from probes.interrupts.reader import Interrupts
from probes.options import ObserveOptions
from probes.programs import Side
from probes.switches.ledger import Ledger

SIDES: tuple[type[Side], ...] = (Interrupts, Actions, ClaimedPaths)
"""What the witnesses have in the kernel besides the ledger, in the order of compilation."""


def new_ledger(root: Path, options: ObserveOptions | None = None) -> Ledger:
    """Return the programs of all witnesses, not yet loaded."""
    return Ledger(root, options or ObserveOptions(), SIDES)


def build_request(root: Path, options: ObserveOptions) -> Request:
    """Return what the programs of all witnesses are made from."""
    return Ledger.request(root, options, SIDES)
