"""A pod that the CPU Manager refuses, with the state that the attempt leaves behind."""

from __future__ import annotations

from toolkit.allocation.admission import AdmissionError, unexpected
from toolkit.allocation.cpu.packed import CpuShortageError
from toolkit.allocation.cpu.state import CpuState


class CpuAdmissionError(AdmissionError):
    """A pod is refused. :param state: the CPU Manager's state afterwards (differs from before only if CPUs leak)."""

    def __init__(self, reason: str, message: str, state: CpuState) -> None:
        super().__init__(reason, message)
        self.state = state


def unexpected_shortage(error: CpuShortageError, state: CpuState) -> CpuAdmissionError:
    """Build the refusal for too few CPUs."""
    refused = unexpected(str(error))
    return CpuAdmissionError(refused.reason, refused.message, state)
