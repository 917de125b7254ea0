"""Memory and devices of the claims, read when the window has closed."""

from __future__ import annotations

from probes.memory.decoder import MemoryReading
from probes.memory.hugetlb import sample_hugetlb
from probes.memory.pages import PageSampler
from probes.observer import Observer
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.host.pci_devices import addresses, read_devices


class MemoryWatch(Watch):
    """One window."""

    def __init__(self, observer: Observer, window: OpenWindow) -> None:
        self._observer, self._window = observer, window
        self._pages = PageSampler()

    def read(self, edge: Edge) -> MemoryReading:
        """Return what is there now; pages of an open window are read again only when the last reading is old."""
        del edge
        observer = self._observer
        claims = [subject.claim for subject in self._window.present()]
        return MemoryReading(
            pages=self._pages.latest(observer.hierarchy, claims, observer.root, now=self._window.closed),
            hugetlb=sample_hugetlb(observer.hierarchy, (*claims, *observer.beside)),
            devices=read_devices(addresses(claims), observer.root),
        )


class Memory(Witness):
    """Where the claims' memory and devices are."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def begin(self, window: OpenWindow, first: Edge) -> MemoryWatch:
        """Begin with a window."""
        del first
        return MemoryWatch(self._observer, window)
