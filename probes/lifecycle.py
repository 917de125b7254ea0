"""What happens to claims besides a change of their mask: their tasks end, and may begin anew.

Records, never judges: a restart is a transition without CPU sets.
Source: ``docs/facts.md`` section 5 point 5.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from probes.subjects import Subject
from probes.windows import Windows
from toolkit.host import cgroupfs
from toolkit.model.evidence import Transition


@contextmanager
def restarting(windows: Windows, name: str, cause: str = "toolkit") -> Iterator[None]:
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
            windows.look()
            windows.verify(subject)
            cgroupfs.cgroup_id(windows.hierarchy, subject.claim.cgroup)
            restart = Transition(claim=name, what="restart", start_at_ns=start, end_at_ns=0, cause=cause)
            if windows.window is not None and not windows.window.closed:
                windows.window.note(restart)


@contextmanager
def ending(windows: Windows, name: str, cause: str = "toolkit") -> Iterator[None]:
    """Look at a claim a last time, and let its tasks end inside the block."""
    subject = windows.require(name)
    window = windows.window
    if window is not None and not window.closed:
        for watch in window.watches.values():
            watch.ending(subject)
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
