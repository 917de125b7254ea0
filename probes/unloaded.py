"""An observer on a kernel that loads no programs: a ledger that counts nothing, and the witness that says so.

Claims, windows and edges are what they are elsewhere, so that the witnesses that need no programs (masks, control
files, counters, memory) go on unchanged. Maps hold nothing, nothing is attached, no CPU is interrupted. Everything that
would rest on switches is named as one blind spot (:data:`toolkit.model.blind_spots.NO_PROGRAMS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from probes.bpfsys import BPF_ANY, Map
from probes.observer import Observer
from probes.online import possible
from probes.options import ObserveOptions
from probes.programs import Side
from probes.readings import Part, Reading, Readings
from probes.ringbuf import Rings
from probes.switches.ledger import Ledger
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.model import blind_spots
from toolkit.model.blind_spots import BlindSpot
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence.switches import SwitchCoverage

UNSEEN = tuple(
    kind
    for kind in blind_spots.Witness
    if kind not in (blind_spots.Witness.MASKS, blind_spots.Witness.FILES, blind_spots.Witness.BANDWIDTH)
)
"""The witnesses that are programs in the kernel."""


_NO_FD = 0xFFFFFFFF
"""What the kernel reads as -1: no file is open by that number."""


class NoMap(Map):
    """A map that is not there: what is written is gone, a hash has no entry, an array has zeros."""

    def __init__(self, key_size: int, value_size: int, copies: int = 1) -> None:
        super().__init__(_NO_FD, key_size, value_size, copies)

    def lookup(self, key: bytes) -> bytes | None:
        """Return ``None``."""
        return None

    def words(self, key: bytes) -> memoryview:
        """Return zeros."""
        return self._words

    def run_words(self, first: int, entries: int) -> memoryview | None:
        """Return zeros."""
        return memoryview(bytes(entries * self.value_size * self.copies // 8 * 8)).cast("Q")

    def update(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> bool:
        """Write nothing."""
        return True

    def zero(self, entries: int) -> None:
        """Write nothing."""

    def delete(self, key: bytes) -> None:
        """Remove nothing."""

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Walk no entries."""
        return iter(())

    def count(self) -> int:
        """Return 0."""
        return 0


class UnloadedLedger(Ledger):
    """The ledger where nothing is loaded. :param why: what the kernel, or the user, says against it."""

    observed = False

    def __init__(self, root: Path, options: ObserveOptions, sides: Sequence[type[Side]], why: str) -> None:
        super().__init__(root, options, sides)
        self.why = why

    def open(self) -> None:
        """Have what windows and claims are kept with; load nothing."""
        self._detach.enter_context(self._online)
        self._open_maps()
        self.sides = tuple(kind(self) for kind in self._kinds)
        self._rings = Rings({})
        self._detach.callback(self._rings.close)
        for side in self.sides:
            self._detach.callback(side.close)
            side.attach()
        self.new_window()

    def table(self, name: str, key: int, value: int | None, *, per_cpu: bool = False) -> Map:
        """Return a map that is not there."""
        return NoMap(key, 8 if value is None else value, possible(self.root) if per_cpu else 1)

    def attach(self, tracepoint: str, function: str, *, typed: bool = False) -> None:
        """Attach nothing."""

    def optional(self, name: str) -> tuple[int | None, str]:
        """Return no program, and why."""
        return None, self.why

    def sample(self, cpus: CpuSet) -> CpuSet:
        """Start no sampler."""
        return EMPTY

    def control(self, command: int, first: int = 0, second: int = 0, cpu: int | None = None) -> None:
        """Run nothing."""

    def everywhere(self, cpus: CpuSet | None, command: int, value: int = 0) -> None:
        """Interrupt no CPU."""

    def set_hierarchies(self, numbers: Mapping[str, int]) -> None:
        """Say it to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnobservedReading(Reading):
    """A window of which nothing is known that needs programs. :param why: there are none."""

    why: str

    def decode(self, readings: Readings) -> Part:
        """Name every witness that is missing, and why."""
        online = readings.frame.last.online
        *most, last = map(str, UNSEEN)
        text = f"{blind_spots.NO_PROGRAMS}: {', '.join(most)} and {last} are not observed ({self.why})"
        return Part(
            coverage=SwitchCoverage(cpus_online=online, cpus_unsampled=online),
            spots=(BlindSpot(text=text, witnesses=UNSEEN),),
        )


class UnobservedWatch(Watch):
    """One window."""

    def __init__(self, why: str) -> None:
        self._why = why

    def read(self, edge: Edge) -> UnobservedReading:
        """Return why nothing was observed."""
        del edge
        return UnobservedReading(why=self._why)


class Unobserved(Witness):
    """Stands for the witnesses that are programs in the kernel."""

    def __init__(self, observer: Observer) -> None:
        assert isinstance(observer.ledger, UnloadedLedger)
        self._why = observer.ledger.why

    def begin(self, window: OpenWindow, first: Edge) -> UnobservedWatch:
        """Begin with a window."""
        del window, first
        return UnobservedWatch(self._why)
