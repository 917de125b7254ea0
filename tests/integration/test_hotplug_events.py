"""The hotplug monitor on the kernel's event socket, with events that it makes on request (no CPU moves)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from toolkit.host.hotplug import HotplugMonitor

pytestmark = pytest.mark.integration

CPU = Path("/sys/devices/system/cpu/cpu0/uevent")
OTHER = Path("/sys/class/mem/null/uevent")


def test_events_among_others_arrive() -> None:
    """Two events of a CPU arrive in order although messages of other devices come between and are filtered out."""
    called: list[int] = []
    with HotplugMonitor(synthetic=True, on_event=lambda: called.append(1)) as monitor:
        if monitor.blind is not None:
            pytest.skip(monitor.blind)
        for action in ("offline", "online"):
            for _ in range(20):
                OTHER.write_text("change")
            CPU.write_text(action)
        deadline = time.monotonic() + 10
        while len(monitor.events) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)

    assert [(event.cpu, event.online) for event in monitor.events] == [(0, False), (0, True)]
    assert called == [1, 1], "what waits for events is woken"
    assert monitor.events[0].at_ns <= monitor.events[1].at_ns
    assert monitor.blind is None


def test_synthetic_events_are_no_evidence() -> None:
    """What a program writes into a uevent file is not hotplug and is left out."""
    with HotplugMonitor() as monitor:
        if monitor.blind is not None:
            pytest.skip(monitor.blind)
        CPU.write_text("offline")
        CPU.write_text("online")
        with HotplugMonitor(synthetic=True) as witness:
            CPU.write_text("offline")
            CPU.write_text("online")
            deadline = time.monotonic() + 10
            while len(witness.events) < 2 and time.monotonic() < deadline:
                time.sleep(0.001)
        assert len(witness.events) >= 2

    assert monitor.events == ()
    assert monitor.blind is None
