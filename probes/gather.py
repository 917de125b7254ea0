"""What is known of a window, closed or still open, as one value: its frame, and what every witness has of it."""

from __future__ import annotations

import os

from probes.readings import Frame, Readings, Watched
from probes.window import Window
from probes.windows import Windows, nohz_full
from probes.witness import Edge
from toolkit.host.cgroup_mounts import read_control
from toolkit.model.evidence import Environment
from toolkit.text import names


def readings(windows: Windows, window: Window) -> Readings:
    """Read what every witness knows of a window; called under the lock."""
    edge = window.end()
    found = [watch.read(edge) for watch in window.watches.values()]
    return Readings(frame(windows, window, edge), tuple(reading for reading in found if reading is not None))


def frame(windows: Windows, window: Window, edge: Edge) -> Frame:
    """Return what is known of a window besides the readings."""
    watched = [
        Watched(claim=subject.claim, ident=subject.ident, cpus=subject.cpus, present=present)
        for subjects, present in ((window.removed, False), (window.present(), True))
        for subject in subjects
    ]
    return Frame(
        number=window.number,
        started_at=window.started_at,
        first=window.first.moment,
        last=edge.moment,
        closed=window.closed,
        environment=window.environment or least_environment(windows),
        options=windows.options,
        subjects=tuple(watched),
        names=dict(windows.names),
        sampled=windows.sampled,
        watched=windows.watched,
        pods_root=windows.claims.pods_root,
        transitions=tuple(window.transitions),
        spots=windows.blindness.within(window.start_ns, edge.moment.at_ns),
    )


def least_environment(windows: Windows) -> Environment:
    """Return what an observer knows of the machine by itself."""
    return Environment(
        kernel=os.uname().release,
        cgroup=windows.hierarchy.mode.value,
        cmdline=names.from_text((read_control(windows.root / "proc/cmdline") or "").strip()),
        cpus_online=windows.ledger.online(),
        cpus_nohz_full=nohz_full(windows.root),
    )
