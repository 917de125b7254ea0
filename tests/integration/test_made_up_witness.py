"""A witness that this file alone knows is composed into an observer by its name in the list alone."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import pytest

from probes.composition import WITNESSES
from probes.loaded import observing
from probes.observer import Observer
from probes.readings import Part, Reading, Readings
from probes.subjects import Subject
from probes.switches.decoder import SwitchReading
from probes.switches.ledger import Ledger
from probes.witness import Edge, OpenWindow, Watch, Witness
from tests.integration.probe_lab import cgroup
from toolkit.model import blind_spots
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Runtime

pytestmark = pytest.mark.integration


@dataclass(frozen=True, kw_only=True)
class UptimePart:
    """Arrives in a field of the evidence that no other witness fills."""

    runtime: Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class UptimeReading(Reading):
    """``/proc/uptime`` at both ends, and which claims came in between."""

    first: float
    last: float
    added: tuple[str, ...]

    def decode(self, readings: Readings) -> Part:
        """Return the difference, and a doubt where the ledger has no row of a claim."""
        missing = [one.name for one in readings.frame.subjects if one.ident not in readings.of(SwitchReading).rows]
        text = f"{len(self.added)} claims came, {len(missing)} without a row"
        return Part(
            evidence=UptimePart(runtime=Runtime(name=",".join(self.added), version=f"{self.last - self.first:.2f}")),
            spots=(BlindSpot(text=text, witnesses=(blind_spots.Witness.ACTIONS,)),),
        )


class Up(NamedTuple):
    """How long the machine had been up."""

    seconds: float


class UptimeWatch(Watch):
    """One window."""

    def __init__(self, first: Up) -> None:
        self._first = first
        self._added: list[str] = []

    def claim_added(self, subject: Subject) -> None:
        """Note the claim."""
        self._added.append(subject.name)

    def read(self, edge: Edge) -> UptimeReading:
        """Return the window so far."""
        assert edge.moment.at_ns > 0
        return UptimeReading(first=self._first.seconds, last=edge.of(Up).seconds, added=tuple(self._added))


class Uptime(Witness):
    """Reads one number on one side of the ledger's moment."""

    read: ClassVar[list[float]] = []

    def __init__(self, observer: Observer) -> None:
        self._path: Path = observer.root / "proc/uptime"

    def begin(self, window: OpenWindow, first: Edge) -> UptimeWatch:
        """Begin with a window."""
        assert not window.closed
        return UptimeWatch(first.of(Up))

    def edge(self, turn: bool) -> Generator[None, None, Up]:
        """Read it."""
        del turn
        yield
        self.read.append(float(self._path.read_text().split()[0]))
        return Up(self.read[-1])


def test_a_new_witness_is_one_name_in_the_list(ledger: Ledger) -> None:
    """Its reading is in the evidence of each window; consecutive windows share the edge between them.

    All the others go on as without it.
    """
    Uptime.read.clear()
    claims = ClaimSet(claims=())
    with cgroup(f"pinproof-uptime-{os.getpid()}") as path:
        claim = Claim(name="late", cgroup=path, cpus=CpuSet.parse("0"))
        with observing(claims, ledger=ledger, witnesses=(Uptime, *WITNESSES)) as observer:
            observer.open_window()
            observer.add_claim(claim)
            ended = observer.turn_window()
            first = observer.finish(ended)
            live = observer.snapshot()
            second = observer.close_window()

    begun, turned, looked, last = Uptime.read
    assert first.runtime == Runtime(name="late", version=f"{turned - begun:.2f}")
    assert live.runtime == Runtime(name="", version=f"{looked - turned:.2f}")
    assert second.runtime == Runtime(name="", version=f"{last - turned:.2f}")
    (spot,) = [spot for spot in first.coverage.blindness if "claims came" in spot.text]
    assert (spot.text, spot.witnesses) == ("1 claims came, 0 without a row", (blind_spots.Witness.ACTIONS,))
    for evidence in (first, second):
        coverage = evidence.coverage
        assert [row.claim for row in coverage.scan_gaps] == ["late"]
        difference = abs(coverage.switches_judged + coverage.switches_untraced - coverage.switches_kernel)
        assert difference <= coverage.switches_skew


class Logging(Witness):
    """Notes when it reads."""

    log: ClassVar[list[str]] = []
    name = ""

    def edge(self, turn: bool) -> Generator[None, None, None]:
        """Note both sides."""
        assert turn
        self.log.append(f"{self.name} before")
        yield
        self.log.append(f"{self.name} after")


class Far(Logging):
    """The first of the list."""

    name = "far"


class Near(Logging):
    """The last of the list."""

    name = "near"


def test_the_last_of_the_list_is_nearest_to_the_moment(ledger: Ledger) -> None:
    """An observer of two witnesses, neither of which gives anything: its evidence is what the window itself knows."""
    Logging.log.clear()
    with observing(ClaimSet(claims=()), ledger=ledger, witnesses=(Far, Near)) as observer:
        observer.open_window()
        evidence = observer.close_window()

    assert Logging.log == ["far before", "near before", "near after", "far after"] * 2
    assert (evidence.cpu_use, evidence.coverage.blindness, evidence.coverage.switches_judged) == ((), (), 0)
    assert evidence.duration_ns > 0
