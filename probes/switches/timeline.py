"""What each claim ran on each CPU, and waited for there, in short bins: read from the kernel, made rows of evidence.

The kernel keeps the latest :data:`~probes.switches.records.BINS` bins of a claim on a CPU; an entry is written once,
when the claim runs there again in a later bin, and says which bin it is. Until then it stands in the claim's row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from probes.bpfsys import Map
from probes.clocks import Clock
from probes.options import BIN_MS
from probes.records import per_cpu
from probes.switches.records import BIN, BINS, Row
from toolkit.model.evidence import TimelineBins

BIN_NS = BIN_MS * 1_000_000
EVERY_S = 0.8
"""From one reading to the next: a third of what the kernel keeps."""
KEPT_NS = (BINS - 1) * BIN_NS
MAX_BINS = 4096
"""Of one claim on one CPU in a window; with more of them, each is twice as long."""
_U32 = struct.Struct("=I")

Spans = dict[int, tuple[int, int]]
"""By number of a bin (CLOCK_MONOTONIC / :data:`BIN_NS`): what was run and waited for (ns)."""


class KernelBins:
    """The kernel's bins. :param claims: for how many there is room in each of two windows; 0: none are kept."""

    def __init__(self, table: Map, claims: int) -> None:
        self._table, self.claims = table, claims
        self._nothing = bytes(table.value_size * table.copies)

    def clear(self, slot: int, window: int) -> None:
        """Empty a claim's bins in the windows of this parity."""
        if slot < self.claims:
            self._table.update(self._key(slot, window), self._nothing)

    def read(self, slot: int, window: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the CPU, the number, and what was run and waited for (ns) of each bin that is kept of a claim."""
        data = self._table.lookup(self._key(slot, window)) or b""
        for cpu, own in enumerate(per_cpu(data, self._table.value_size)):
            if any(own):
                for number, run_ns, wait_ns in BIN.iter_unpack(own[: BINS * BIN.size]):
                    if number:
                        yield cpu, number, run_ns, wait_ns

    def _key(self, slot: int, window: int) -> bytes:
        return _U32.pack((window & 1) * self.claims + slot)


@dataclass(slots=True)
class Timeline:
    """The bins of one window. :param start_ns: when it began (CLOCK_MONOTONIC)."""

    start_ns: int
    looks: Clock = field(init=False)
    _bins: dict[tuple[int, int], Spans] = field(default_factory=dict)
    """By ident and CPU."""

    def __post_init__(self) -> None:
        self.looks = Clock(self.start_ns)

    def take(self, ident: int, found: Iterable[tuple[int, int, int, int]]) -> None:
        """Take what the kernel has of a claim: it is the same or more each time."""
        for cpu, number, run_ns, wait_ns in found:
            self._bins.setdefault((ident, cpu), {})[number] = (run_ns, wait_ns)

    def rows(
        self, claims: Mapping[int, str], rows: Mapping[int, Sequence[Row]], end_ns: int
    ) -> tuple[TimelineBins, ...]:
        """Return what was kept, with what stands in the rows of the ledger yet. :param claims: ident -> name."""
        found = []
        for ident, name in claims.items():
            own = {cpu: dict(spans) for (one, cpu), spans in self._bins.items() if one == ident}
            for cpu, row in enumerate(rows.get(ident, ())):
                run_ns, wait_ns = row.ns - row.slotted_ns, row.wait_ns - row.slotted_wait_ns
                if run_ns or wait_ns:
                    _add(own.setdefault(cpu, {}), row.slot, run_ns, wait_ns)
            found += [timeline_bins(name, cpu, spans, self.start_ns, end_ns) for cpu, spans in sorted(own.items())]
        return tuple(found)


def timeline_bins(claim: str, cpu: int, spans: Spans, start_ns: int, end_ns: int) -> TimelineBins:
    """Make one row. What exceeds a bin is of the bins before it: an interval, and a wait, count where they end."""
    first, last = start_ns // BIN_NS, max(start_ns, end_ns - 1) // BIN_NS
    bins: Spans = {}
    for number, (run_ns, wait_ns) in spans.items():
        _add(bins, min(max(number, first), last) - first, run_ns, wait_ns)
    bins, bin_ns = spilled(bins, BIN_NS), BIN_NS
    while len(bins) > MAX_BINS:
        bins, bin_ns = _joined(bins), bin_ns * 2
    numbers = sorted(bins)
    return TimelineBins(
        claim=claim,
        cpu=cpu,
        bin_ns=bin_ns,
        start_at_ns=first * BIN_NS - start_ns,
        bins=tuple(numbers),
        run_us=tuple(bins[number][0] // 1000 for number in numbers),
        wait_us=tuple(bins[number][1] // 1000 for number in numbers),
    )


def spilled(bins: Spans, bin_ns: int) -> Spans:
    """Put what exceeds a bin into the bins before it, as far as there are any."""
    found = dict[int, tuple[int, int]]()
    run_ns = wait_ns = 0
    number = max(bins, default=-1)
    while number >= 0:
        own_run, own_wait = bins.get(number, (0, 0))
        run_ns, wait_ns = run_ns + own_run, wait_ns + own_wait
        here = (run_ns, wait_ns) if not number else (min(run_ns, bin_ns), min(wait_ns, bin_ns))
        if any(here):
            found[number] = here
        run_ns, wait_ns = run_ns - here[0], wait_ns - here[1]
        number = number - 1 if run_ns or wait_ns else max((one for one in bins if one < number), default=-1)
    return found


def _joined(bins: Spans) -> Spans:
    found: Spans = {}
    for number, (run_ns, wait_ns) in bins.items():
        _add(found, number // 2, run_ns, wait_ns)
    return found


def _add(bins: Spans, number: int, run_ns: int, wait_ns: int) -> None:
    old = bins.get(number, (0, 0))
    bins[number] = (old[0] + run_ns, old[1] + wait_ns)
