"""From what was reported of state files to its part of the evidence: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from probes.readings import Part, Reading, Readings
from toolkit.model.blind_spots import STATE_AUTHORS, BlindSpot, Witness
from toolkit.model.evidence.state_writes import StateWrite, StateWriteEvidence
from toolkit.model.state_files import KUBELETS


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFileReading(Reading):
    """What is known when a window ends.

    :param writes: in order of time, which is CLOCK_MONOTONIC here; ``None``: not observed.
    :param problem: why it is not observed, or not all of it.
    """

    writes: tuple[StateWrite, ...] | None = None
    problem: str = ""

    def decode(self, readings: Readings) -> Part:
        """Return the writes of the window, and of each file the last before it by a kubelet and by anything else."""
        frame = readings.frame
        written = None if self.writes is None else _of_window(self.writes, frame.start_ns, frame.end_ns)
        spots = [BlindSpot(text=f"{STATE_AUTHORS}: {self.problem}", witnesses=(Witness.ACTIONS,))]
        return Part(evidence=StateWriteEvidence(state_writes=written), spots=spots if self.problem else ())


def _of_window(writes: Sequence[StateWrite], start_ns: int, end_ns: int) -> tuple[StateWrite, ...]:
    before = {(one.file, one.comm in KUBELETS): one for one in writes if one.at_ns < start_ns}
    known = [one for one in writes if start_ns <= one.at_ns <= end_ns or one in before.values()]
    return tuple(replace(one, at_ns=one.at_ns - start_ns) for one in known)
