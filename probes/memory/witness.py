"""Memory and devices of the claims, read when the window has closed."""

from __future__ import annotations

from probes.memory.decoder import MemoryReading
from probes.memory.hugetlb import sample_hugetlb
from probes.memory.pages import PageSampler
from probes.windows import Windows
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.host.pci_devices import addresses, read_devices


class MemoryWatch(Watch):
    """One window."""

    def __init__(self, windows: Windows, window: OpenWindow) -> None:
        self._windows, self._window = windows, window
        self._pages = PageSampler()

    def read(self, edge: Edge) -> MemoryReading:
        """Return what is there now; pages of an open window are read again only when the last reading is old."""
        del edge
        windows = self._windows
        claims = [subject.claim for subject in self._window.present()]
        return MemoryReading(
            pages=self._pages.latest(windows.hierarchy, claims, windows.root, now=self._window.closed),
            hugetlb=sample_hugetlb(windows.hierarchy, (*claims, *windows.beside)),
            devices=read_devices(addresses(claims), windows.root),
        )


class Memory(Witness):
    """Where the claims' memory and devices are."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    def begin(self, window: OpenWindow, first: Edge) -> MemoryWatch:
        """Begin with a window."""
        del first
        return MemoryWatch(self._windows, window)
