"""CPUs that come and go under claims: the kernel's events, and the online list where events are missing.

A CPU's coming and going is a transition of every claim that has it, with the set that the kernel grants afterwards,
read again at that moment.
Source: ``docs/facts.md`` K14 (what cpusets do when CPUs go offline).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from probes.node.decoder import CpuReading
from probes.node.presence import Presence
from probes.observer import Observer
from probes.witness import Chore, Edge, OpenWindow, Watch, Witness
from toolkit.host import cgroupfs
from toolkit.host.hotplug import HotplugMonitor
from toolkit.model.evidence import HotplugEvent, Transition

HOTPLUG = "hotplug"
"""Cause of transitions that the machine made."""
HOTPLUG_S = 0.25
"""From one look at the list of online CPUs to the next where nothing else says what went or came."""


class CpuWatch(Watch):
    """One window."""

    def __init__(self, monitor: HotplugMonitor, window: OpenWindow) -> None:
        self._monitor, self._window = monitor, window
        self.events: list[HotplugEvent] = []

    def read(self, edge: Edge) -> CpuReading:
        """Return the window so far."""
        end_ns = edge.moment.at_ns
        return CpuReading(
            events=tuple(self.events),
            lapses=tuple(
                lapse.text
                for lapse in self._monitor.lapses
                if lapse.start_ns <= end_ns and (lapse.end_ns is None or lapse.end_ns >= self._window.start_ns)
            ),
        )


class Cpus(Witness):
    """Which CPUs are online."""

    hotplug: HotplugMonitor
    _presence: Presence

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def running(self) -> AbstractContextManager[None]:
        """Hear the kernel's events."""
        return self._hearing()

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        self._presence = Presence(self._observer.ledger.online())
        with HotplugMonitor(root=self._observer.root, on_event=self._observer.ledger.wake) as self.hotplug:
            yield

    def chores(self) -> tuple[Chore, ...]:
        """Look whenever the kernel has reported something, and in rounds that come anyway; four times a second where
        its reports are not heard.
        """
        return Chore(HOTPLUG_S, self._look_for_cpus, may_wait=self._hears), Chore(0.0, self._hear)

    def _hears(self) -> bool:
        return not any(lapse.end_ns is None for lapse in self.hotplug.lapses)

    def _hear(self) -> None:
        if self.hotplug.events:
            self._look_for_cpus()

    def begin(self, window: OpenWindow, first: Edge) -> CpuWatch:
        """Begin with a window."""
        del first
        return CpuWatch(self.hotplug, window)

    def catch_up(self) -> None:
        """Take in what the kernel has reported; a change that it has not reported counts from the second look."""
        self.hotplug.catch_up()
        self._look_for_cpus()
        self._look_for_cpus()

    def _look_for_cpus(self) -> None:
        """Take note of CPUs that went or came since the last look, and put new ones under the sampler."""
        observer = self._observer
        with observer.lock:
            online = observer.ledger.online()
            for event in self._presence.news(self.hotplug.take(), online, time.monotonic_ns()):
                if event.online:
                    observer.cpu_came_online(event.cpu)
                else:
                    observer.ledger.forget_sampler(event.cpu)
                self._changed(event)

    def _changed(self, event: HotplugEvent) -> None:
        """Note that a CPU went or came (``at_ns`` absolute), and what every claim that has it is granted now.

        In the window in which it happened: that may be the one that has just ended.
        """
        observer = self._observer
        window = next((live for live in observer.live() if not live.closed or event.at_ns <= live.end_ns), None)
        if window is None:
            return
        at_ns = max(0, event.at_ns - window.start_ns)
        window.watch(CpuWatch).events.append(HotplugEvent(cpu=event.cpu, online=event.online, at_ns=at_ns))
        for subject in list(observer.subjects.values()):
            claim = subject.claim
            if claim.cpus is None or event.cpu not in subject.cpus:
                continue
            files = cgroupfs.read_files(observer.hierarchy, claim.cgroup, time.monotonic_ns())
            window.note(
                Transition(
                    claim=claim.name,
                    what="cpu-online" if event.online else "cpu-offline",
                    start_at_ns=event.at_ns,
                    end_at_ns=0,
                    cpus_before=subject.cpus,
                    cpus_after=files.cpus_effective,
                    cause=HOTPLUG,
                )
            )
