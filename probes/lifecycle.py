"""What happens to claims besides a change of their mask: restarts, and CPUs that come and go under them.

Records, never judges: a restart is a transition without CPU sets, a CPU's coming and going one with the set that the
kernel grants afterwards, read again at that moment.
Source: ``docs/facts.md`` K14 (what cpusets do when CPUs go offline), section 5 point 5.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from probes.subjects import Subject
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import HotplugEvent, Transition

if TYPE_CHECKING:
    from probes.observer import Observer
    from probes.window import Window

HOTPLUG = "hotplug"
"""Cause of transitions that the machine made."""


@contextmanager
def restarting(observer: Observer, name: str, cause: str = "toolkit") -> Iterator[None]:
    """Let a claim's tasks end and begin anew inside the block; its cgroup may be another one of the same name.

    :raises InputError: the claim is not watched, or its cgroup is gone when the block ends.
    """
    subject = observer.require(name)
    start = time.monotonic_ns()
    with _made_by(subject, cause):
        yield
        with observer.lock:
            if observer.require(name) is not subject:
                return
            observer.identities.look()
            observer.identities.verify(subject)
            cgroupfs.cgroup_id(observer.hierarchy, subject.claim.cgroup)
            restart = Transition(claim=name, what="restart", start_at_ns=start, end_at_ns=0, cause=cause)
            if observer.window is not None and not observer.window.closed:
                _note(observer.window, restart)


@contextmanager
def ending(observer: Observer, name: str, cause: str = "toolkit") -> Iterator[None]:
    """Look at a claim a last time, let its tasks end inside the block, and stop watching it."""
    subject = observer.require(name)
    window = observer.window
    if window is not None and not window.closed:
        if observer.options.threads:
            window.masks.scan(subject, lambda: window.closed)
        observer.read_last(name)
    with _made_by(subject, cause):
        yield
    observer.remove_claim(name)


@contextmanager
def _made_by(subject: Subject, cause: str) -> Iterator[None]:
    subject.cause = cause
    try:
        yield
    finally:
        subject.cause = "host"


def look_for_cpus(observer: Observer) -> None:
    """Take note of CPUs that went or came since the last look, and put new ones under the sampler."""
    with observer.lock:
        online = observer.ledger.online()
        for event in observer.presence.news(observer.hotplug.events, online, time.monotonic_ns()):
            if event.online:
                observer.cpu_came_online(event.cpu)
            else:
                observer.ledger.forget_sampler(event.cpu)
            cpu_changed(observer, event)


def last_look_for_cpus(observer: Observer) -> None:
    """Look before a window closes: what the kernel has told by now is heard, a change that it has not told counts."""
    observer.hotplug.catch_up()
    look_for_cpus(observer)
    look_for_cpus(observer)


def cpu_changed(observer: Observer, event: HotplugEvent) -> None:
    """Note that a CPU went or came (``at_ns`` absolute), and what every claim that has it is granted now.

    In the window in which it happened: that may be the one that has just ended.
    """
    with observer.lock:
        windows = (live for live in observer.live() if live.last is None or event.at_ns <= live.last.at_ns)
        window = next(windows, None)
        if window is None:
            return
        at_ns = event.at_ns - window.start_ns
        window.hotplug.append(HotplugEvent(cpu=event.cpu, online=event.online, at_ns=max(0, at_ns)))
        for subject in list(observer.subjects.values()):
            claim = subject.claim
            if claim.cpus is None or event.cpu not in subject.cpus:
                continue
            files = cgroupfs.read_files(observer.hierarchy, claim.cgroup, time.monotonic_ns())
            _note(
                window,
                Transition(
                    claim=claim.name,
                    what="cpu-online" if event.online else "cpu-offline",
                    start_at_ns=event.at_ns,
                    end_at_ns=0,
                    cpus_before=subject.cpus,
                    cpus_after=files.cpus_effective,
                    cause=HOTPLUG,
                ),
            )


class Presence:
    """Which CPUs are online: the kernel's events in their order, and the online list where events are missing."""

    def __init__(self, online: CpuSet) -> None:
        self._known = online
        self._differed = CpuSet()
        self._taken = 0

    def news(self, events: tuple[HotplugEvent, ...], online: CpuSet, now_ns: int) -> list[HotplugEvent]:
        """Return what changed since the last call; a difference that no event explains counts from the second look.

        An event that comes later than that look changes nothing any more and is not told twice.
        """
        fresh = []
        for event in events[self._taken :]:
            if (event.cpu in self._known) == event.online:
                continue
            fresh.append(event)
            self._known = self._known ^ CpuSet.of([event.cpu])
        self._taken = len(events)
        differs = self._known ^ online
        for cpu in differs & self._differed:
            fresh.append(HotplugEvent(cpu=cpu, online=cpu in online, at_ns=now_ns))
            self._known = self._known ^ CpuSet.of([cpu])
        self._differed = differs - self._differed
        return fresh


def _note(window: Window, transition: Transition) -> None:
    """Add a transition whose start is absolute and whose end is now, or the window's."""
    now_ns = time.monotonic_ns()
    end_ns = now_ns if window.last is None else min(now_ns, window.last.at_ns)
    window.transitions.append(
        Transition(
            claim=transition.claim,
            what=transition.what,
            start_at_ns=transition.start_at_ns - window.start_ns,
            end_at_ns=end_ns - window.start_ns,
            cpus_before=transition.cpus_before,
            cpus_after=transition.cpus_after,
            cause=transition.cause,
        )
    )
