"""What happens to claims besides a change of their mask: restarts, and CPUs that come and go under them.

Records, never judges: a restart is a transition without CPU sets, a CPU's coming and going one with the set that the
kernel grants afterwards, read again at that moment.
Source: ``docs/facts.md`` K14 (what cpusets do when CPUs go offline), section 5 point 5.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from probes.cgroups.identity import Identities
from probes.subjects import Subject
from probes.window import Window
from probes.windows import Windows
from toolkit.host import cgroupfs
from toolkit.model.evidence import HotplugEvent, Transition

HOTPLUG = "hotplug"
"""Cause of transitions that the machine made."""


@contextmanager
def restarting(windows: Windows, identities: Identities, name: str, cause: str = "toolkit") -> Iterator[None]:
    """Let a claim's tasks end and begin anew inside the block; its cgroup may be another one of the same name.

    :raises InputError: the claim is not watched, or its cgroup is gone when the block ends.
    """
    subject = windows.require(name)
    start = time.monotonic_ns()
    with _made_by(subject, cause):
        yield
        with windows.lock:
            if windows.require(name) is not subject:
                return
            identities.look()
            identities.verify(subject)
            cgroupfs.cgroup_id(windows.hierarchy, subject.claim.cgroup)
            restart = Transition(claim=name, what="restart", start_at_ns=start, end_at_ns=0, cause=cause)
            if windows.window is not None and not windows.window.closed:
                _note(windows.window, restart)


@contextmanager
def ending(windows: Windows, name: str, cause: str = "toolkit") -> Iterator[None]:
    """Look at a claim a last time, and let its tasks end inside the block."""
    subject = windows.require(name)
    window = windows.window
    if window is not None and not window.closed:
        if windows.options.threads:
            window.masks.scan(subject, lambda: window.closed)
        windows.read_last(name)
    with _made_by(subject, cause):
        yield


@contextmanager
def _made_by(subject: Subject, cause: str) -> Iterator[None]:
    subject.cause = cause
    try:
        yield
    finally:
        subject.cause = "host"


def look_for_cpus(windows: Windows) -> None:
    """Take note of CPUs that went or came since the last look, and put new ones under the sampler."""
    with windows.lock:
        online = windows.ledger.online()
        for event in windows.presence.news(windows.hotplug.events, online, time.monotonic_ns()):
            if event.online:
                windows.cpu_came_online(event.cpu)
            else:
                windows.ledger.forget_sampler(event.cpu)
            cpu_changed(windows, event)


def last_look_for_cpus(windows: Windows) -> None:
    """Look before a window closes: what the kernel has told by now is heard, a change that it has not told counts."""
    windows.hotplug.catch_up()
    look_for_cpus(windows)
    look_for_cpus(windows)


def cpu_changed(windows: Windows, event: HotplugEvent) -> None:
    """Note that a CPU went or came (``at_ns`` absolute), and what every claim that has it is granted now.

    In the window in which it happened: that may be the one that has just ended.
    """
    with windows.lock:
        candidates = (live for live in windows.live() if live.last is None or event.at_ns <= live.last.at_ns)
        window = next(candidates, None)
        if window is None:
            return
        at_ns = event.at_ns - window.start_ns
        window.hotplug.append(HotplugEvent(cpu=event.cpu, online=event.online, at_ns=max(0, at_ns)))
        for subject in list(windows.subjects.values()):
            claim = subject.claim
            if claim.cpus is None or event.cpu not in subject.cpus:
                continue
            files = cgroupfs.read_files(windows.hierarchy, claim.cgroup, time.monotonic_ns())
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
