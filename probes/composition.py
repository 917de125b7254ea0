"""What an observer is composed of: the one place that names the witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from probes.actions.witness import ActionWitness
from probes.builder import Request
from probes.cgroups.counters import Bandwidth
from probes.cgroups.files import Files
from probes.cgroups.identity import Identities
from probes.cgroups.pressure import PressureWitness
from probes.interrupts.witness import InterruptWitness
from probes.masks.witness import Masks
from probes.memory.witness import Memory
from probes.node.cpus import Cpus
from probes.node.witness import OwnCost, System, Threads
from probes.observer import Made
from probes.options import ObserveOptions
from probes.programs import Side
from probes.state_files.witness import StateFileWitness
from probes.switches.ledger import Ledger
from probes.switches.witness import Switches
from probes.unloaded import UnloadedLedger, Unobserved
from probes.writes.witness import WriteWitness

WITNESSES: tuple[Made, ...] = (
    # Nothing, or little, that has to be read at a certain moment:
    OwnCost,
    Memory,
    Masks,
    Cpus,
    ActionWitness,
    WriteWitness,
    StateFileWitness,
    Identities,
    # Dear to read: far from the ledger's moment.
    Files,
    Threads,
    PressureWitness,
    # What the ledger is compared with: near to it, the shorter to read the nearer.
    Bandwidth,
    InterruptWitness,
    System,
    Switches,
)
"""In the order in which they read at an edge of a window, and in the opposite one after the ledger's moment."""

WITHOUT_PROGRAMS: tuple[Made, ...] = (
    *(OwnCost, Memory, Masks, Cpus, WriteWitness, Identities, Files, Threads, PressureWitness, Bandwidth, System),
    Unobserved,
)
"""Where the kernel loads none: those that need none, in the same order, and one that names what is missing."""


def new_ledger(root: Path, options: ObserveOptions | None = None, witnesses: Sequence[Made] = WITNESSES) -> Ledger:
    """Return the programs of these witnesses, not yet loaded."""
    return Ledger(root, options or ObserveOptions(), sides(witnesses))


def witnesses_for(ledger: Ledger) -> tuple[Made, ...]:
    """Return what an observer on this ledger is composed of."""
    return WITNESSES if ledger.observed else WITHOUT_PROGRAMS


def unloaded_ledger(root: Path, options: ObserveOptions, why: str) -> UnloadedLedger:
    """Return what stands for the programs where none are loaded. :param why: nothing is."""
    return UnloadedLedger(root, options, sides(WITHOUT_PROGRAMS), why)


def build_request(root: Path, options: ObserveOptions) -> Request:
    """Return what the programs of all witnesses are made from."""
    return Ledger.request(root, options, sides(WITNESSES))


def sides(witnesses: Sequence[Made]) -> tuple[type[Side], ...]:
    """Return what they have in the kernel besides the ledger, in the order of compilation."""
    return tuple(witness.SIDE for witness in witnesses if witness.SIDE is not None)
