"""Which CPUs are online."""

from __future__ import annotations

from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import HotplugEvent


class Presence:
    """Which CPUs are online: the kernel's events in their order, and the online list where events are missing."""

    def __init__(self, online: CpuSet) -> None:
        self._known = online
        self._differed = CpuSet()

    def news(self, events: tuple[HotplugEvent, ...], online: CpuSet, now_ns: int) -> list[HotplugEvent]:
        """Return what changed since the last call. A difference that no event explains counts from the second look.

        :param events: since the last call.

        An event that comes later than that look changes nothing any more and is not reported twice.
        """
        fresh = []
        for event in events:
            if (event.cpu in self._known) == event.online:
                continue
            fresh.append(event)
            self._known = self._known ^ CpuSet.of([event.cpu])
        differs = self._known ^ online
        for cpu in differs & self._differed:
            fresh.append(HotplugEvent(cpu=cpu, online=cpu in online, at_ns=now_ns))
            self._known = self._known ^ CpuSet.of([cpu])
        self._differed = differs - self._differed
        return fresh
