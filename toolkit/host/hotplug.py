"""Notices CPUs that go offline or come online while something is watched: evidence about a set of CPUs that changed
under it proves nothing.

pyudev's monitor receives and decodes; its ``MonitorObserver`` is not used: its thread ends at the first overrun of the
socket, where ours notes a doubt and goes on, and it cannot say that everything sent so far was read (``catch_up``).

The kernel's own uevents are read (no udevd needed), and the online list is the second witness: where the two disagree,
or the socket is not allowed, the monitor says that it is blind instead of reporting "no events".

Source: Documentation/core-api/cpu_hotplug.rst ("Architecture's requirements": online/offline uevents);
Documentation/ABI/testing/sysfs-uevent (SYNTH_UUID). Seen with pyudev: a filtered-out message makes ``poll``
return ``None`` at once, which is no timeout.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from toolkit.host.sysfs import SysTree
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import HotplugEvent

_ONLINE = "sys/devices/system/cpu/online"
_CPU_NAME = re.compile(r"cpu(\d{1,6})", re.ASCII)
_RECEIVE_BYTES = 1024 * 1024
"""Room for thousands of events, while the thread waits for a CPU."""
_EVENTS_DEADLINE_S = 0.5
"""The kernel changes the online list a little before it sends the event; later than this the event is lost."""
_CAUGHT_UP_S = 2.0
"""An idle monitor answers in a millisecond; behind 40 runnable tasks of a 3 ms slice in 120 ms."""
LOST = "CPU hotplug events were lost (buffer full)"


@dataclass(slots=True)
class Lapse:
    """A time in which events may have been missed (CLOCK_MONOTONIC); ``end_ns`` ``None``: from then on."""

    text: str
    start_ns: int
    end_ns: int | None = None


def decode(action: str | None, name: str, at_ns: int) -> HotplugEvent | None:
    """Turn a uevent into an event; ``None`` for anything but a CPU that went offline or came online.

    ``add`` and ``remove`` (a CPU that was plugged physically) change nothing by themselves: it is not online yet, or
    no longer.
    """
    match = _CPU_NAME.fullmatch(name)
    if match is None or action not in ("online", "offline"):
        return None
    return HotplugEvent(cpu=int(match[1]), online=action == "online", at_ns=at_ns)


def _led_to(online: CpuSet, events: Iterable[HotplugEvent]) -> CpuSet:
    """Return which CPUs are online after these events."""
    mask = online.mask
    for event in events:
        bit = 1 << event.cpu
        mask = mask | bit if event.online else mask & ~bit
    return CpuSet(mask)


class HotplugMonitor:
    """Context manager that collects hotplug events in a thread that sleeps until there is one.

    :param start_ns: CLOCK_MONOTONIC time that events are relative to; 0: absolute.
    :param synthetic: also take events that something made by writing to a CPU's ``uevent`` file.
    :param on_event: called after each event, in that thread.
    """

    def __init__(
        self,
        start_ns: int = 0,
        root: Path = Path("/"),
        *,
        synthetic: bool = False,
        on_event: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_event = on_event
        self._start_ns = start_ns
        self._root = root
        self._synthetic = synthetic
        self._lock = threading.Lock()
        self._events: list[HotplugEvent] = []
        self._lapses: list[Lapse] = []
        self._heard_ns = 0  # everything sent before was received
        self._wanted_ns = 0  # something wants to know whether what was sent until then has been received
        self._caught_up = threading.Event()
        self._thread: threading.Thread | None = None
        self._wake = -1
        self._ended = False
        self._online_before: CpuSet | None = None

    def __enter__(self) -> HotplugMonitor:
        try:
            # Imported here: without libudev the import itself fails, and that must not stop a run.
            import pyudev

            monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source="kernel")
            monitor.filter_by("cpu")
            # libudev returns 1, for which pyudev 0.24.0 (Debian 12 and 13) raises the last error that ctypes keeps: of
            # any call of this thread, a bpf(2) that found its key for one.
            ctypes.set_errno(0)
            monitor.set_receive_buffer_size(_RECEIVE_BYTES)
            monitor.start()
        except (OSError, ImportError) as error:
            self._go_blind(f"CPU hotplug events cannot be received: {error}", 0)
        else:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC)
            self._thread = threading.Thread(target=self._collect, args=(monitor,), name="hotplug", daemon=True)
        self._heard_ns = time.monotonic_ns()
        # Read only when events can arrive: a change between the two would be seen by neither.
        self._online_before = self._online()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._await_events()
        if self._thread is not None:
            self._ended = True
            os.eventfd_write(self._wake, 1)
            self._thread.join()
            os.close(self._wake)
            self._thread, self._wake = None, -1

    @property
    def events(self) -> tuple[HotplugEvent, ...]:
        """Everything seen so far, oldest first, that nothing has taken."""
        with self._lock:
            return tuple(self._events)

    def take(self) -> tuple[HotplugEvent, ...]:
        """Return everything seen since the last call, oldest first, and keep only what it leads to."""
        with self._lock:
            taken, self._events = tuple(self._events), []
            if self._online_before is not None:
                self._online_before = _led_to(self._online_before, taken)
        return taken

    @property
    def blind(self) -> str | None:
        """Why the events may be incomplete, or ``None``. Final after the context has ended."""
        with self._lock:
            return self._lapses[0].text if self._lapses else None

    @property
    def lapses(self) -> tuple[Lapse, ...]:
        """When events may have been missed, and why."""
        with self._lock:
            return tuple(self._lapses)

    def catch_up(self) -> None:
        """Return when everything that the kernel has sent by now was received; go blind if that takes too long."""
        if self._thread is None:
            return
        now = time.monotonic_ns()
        with self._lock:
            self._caught_up.clear()
            self._wanted_ns = now
        os.eventfd_write(self._wake, 1)
        if not self._caught_up.wait(_CAUGHT_UP_S):
            self._go_blind(f"CPU hotplug events were not read for {_CAUGHT_UP_S:g} s", self._heard_ns, now)

    def _collect(self, monitor: Any) -> None:
        try:
            self._listen(monitor)
        except Exception as error:  # the thread ends here: without this its end would go unnoticed
            self._go_blind(
                f"CPU hotplug events are not received any more: {error or type(error).__name__}", self._heard_ns
            )

    def _listen(self, monitor: Any) -> None:
        poller = select.poll()
        poller.register(monitor.fileno(), select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while True:
            asked = self._wanted_ns
            ready = dict(poller.poll())
            if ready.get(monitor.fileno(), 0) & select.POLLERR:
                self._take_error(monitor.fileno())
            elif monitor.fileno() in ready:
                self._receive(monitor)
            elif self._wake in ready:
                os.eventfd_read(self._wake)
                if self._ended:
                    return
                with self._lock:
                    self._heard_ns = max(self._heard_ns, asked)
                    if asked >= self._wanted_ns:
                        self._caught_up.set()
                    else:
                        os.eventfd_write(self._wake, 1)

    def _take_error(self, descriptor: int) -> None:
        """Ask the socket what is wrong, which clears it: pyudev only refuses to read, again and again."""
        now = time.monotonic_ns()
        with socket.socket(fileno=os.dup(descriptor)) as asked:
            error = asked.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._lost(error, now)

    def _lost(self, error: int, now_ns: int) -> None:
        # What was sent since the socket was last known to be empty may be lost; the online list remains a witness.
        text = LOST if error == errno.ENOBUFS else f"CPU hotplug events: {os.strerror(error)}"
        self._go_blind(text, self._heard_ns, now_ns)

    def _receive(self, monitor: Any) -> None:
        """Take one message. ``None`` is a message for another receiver, or none at all: the caller asks the kernel."""
        now = time.monotonic_ns()
        try:
            device = monitor.poll(timeout=0)
        except OSError as error:
            self._lost(error.errno or errno.EIO, now)
            return
        if device is None or (device.properties.get("SYNTH_UUID") is not None and not self._synthetic):
            return
        event = decode(device.action, device.sys_name, time.monotonic_ns() - self._start_ns)
        if event is not None:
            with self._lock:
                self._events.append(event)
            self._on_event()

    def _await_events(self) -> None:
        """Wait until the events explain the online list; an event is sent a little after the list changes."""
        deadline = time.monotonic() + _EVENTS_DEADLINE_S
        while not self._explained():
            if self.blind is not None or time.monotonic() > deadline:
                text = f"CPU hotplug: the events received do not lead from {self._online_before} to {self._online()}"
                self._go_blind(text, 0)
                return
            threading.Event().wait(0.005)

    def _explained(self) -> bool:
        now = self._online()
        if self._online_before is None or now is None:
            return True
        return _led_to(self._online_before, self.events) == now

    def _online(self) -> CpuSet | None:
        return SysTree(self._root).cpu_list(_ONLINE)

    def _go_blind(self, reason: str, start_ns: int, end_ns: int | None = None) -> None:
        with self._lock:
            for lapse in self._lapses:
                if lapse.text == reason:  # one lapse, as long as all of them: a flood must not fill the memory
                    lapse.end_ns = None if lapse.end_ns is None or end_ns is None else max(lapse.end_ns, end_ns)
                    return
            self._lapses.append(Lapse(reason, start_ns, end_ns))
