"""Decoding of uevents, and blindness that is told."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from toolkit.host.hotplug import HotplugMonitor, decode
from toolkit.model.evidence import HotplugEvent


def test_online_and_offline_are_decoded() -> None:
    """The two actions of a CPU that matter become events with its number."""
    assert decode("offline", "cpu3", 7) == HotplugEvent(cpu=3, online=False, at_ns=7)
    assert decode("online", "cpu128", 8) == HotplugEvent(cpu=128, online=True, at_ns=8)


@pytest.mark.parametrize(
    ("action", "name"),
    [
        *(("add", "cpu3"), ("remove", "cpu3"), ("change", "cpu3"), (None, "cpu3"), ("online", "machinecheck3")),
        *(("online", "cpu"), ("online", "cpu3x"), ("offline", "memory3"), ("online", "cpu٣")),
    ],
)
def test_everything_else_is_not_an_event(action: str | None, name: str) -> None:
    """Other actions and other devices are no hotplug of a CPU."""
    assert decode(action, name, 0) is None


def test_a_refused_socket_makes_it_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where netlink is not allowed the monitor says so, and the run goes on."""
    pyudev = pytest.importorskip("pyudev")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(pyudev.Monitor, "from_netlink", refuse)
    with HotplugMonitor() as monitor:
        assert monitor.blind is not None
    assert "Operation not permitted" in (monitor.blind or "")
    assert monitor.events == ()


def test_an_error_of_an_earlier_call_is_not_the_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pyudev 0.24.0 raises what ctypes keeps when libudev returns 1, which is no error."""
    pyudev = pytest.importorskip("pyudev")

    def as_in_debian(_monitor: object, _bytes: int) -> None:
        if kept := ctypes.get_errno():
            raise OSError(kept, os.strerror(kept))

    monkeypatch.setattr(pyudev.Monitor, "set_receive_buffer_size", as_in_debian)
    ctypes.set_errno(errno.EEXIST)
    with HotplugMonitor(root=tmp_path) as monitor:
        pass
    assert monitor.blind is None


def test_a_change_without_events_makes_it_blind(tmp_path: Path) -> None:
    """Where no event arrives (a container's user namespace) the online list betrays the change."""
    pytest.importorskip("pyudev")
    online = tmp_path / "sys/devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    online.write_text("0-3\n")
    with HotplugMonitor(root=tmp_path) as monitor:
        online.write_text("0-2\n")
    assert monitor.events == ()
    assert "0-3 to 0-2" in (monitor.blind or "")


def test_a_quiet_time_has_no_events(tmp_path: Path) -> None:
    """When nothing changes there are no events, and no excuse is made."""
    pytest.importorskip("pyudev")
    with HotplugMonitor(root=tmp_path) as monitor:
        pass
    assert monitor.events == ()
    assert monitor.blind is None or "cannot be received" in monitor.blind
