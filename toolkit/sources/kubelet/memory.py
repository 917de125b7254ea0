"""What one that follows a kubelet's node keeps from one reading to the next: a reading then costs what has changed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.runtimes import whole_of
from toolkit.sources.kubelet.answers import Answers
from toolkit.sources.kubelet.live_files import Tops, is_kubelet, kubelet_pid, numbers, start_ticks
from toolkit.sources.kubelet.pod_paths import place_of
from toolkit.sources.kubelet.pod_tree import PodTree
from toolkit.sources.kubelet.turns import Turns

SEARCH_S = 60.0
"""So often the kubelet is looked for among all processes although the one that is known runs: another of a lower number
may call itself so. One that ends, or calls itself otherwise, is looked for at once."""


class KubeletProcess:
    """Which process is the kubelet, by its number; what it says is read each time, and holds while none runs."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._searched_s = 0.0
        self._said: tuple[str, ...] | None = None
        self._started: tuple[int, int] | None = None
        self._version: tuple[int | None, str] | None = None
        """What was answered when a kubelet of a number was asked for its version last."""
        self._config: dict[str, bytes] = {}
        """What the kubelet of this number and start was configured with when it was first seen."""

    def pid(self, proc: Path) -> int | None:
        """Return the process; ``None``: none runs."""
        now_s = time.monotonic()
        if self._pid is None or now_s - self._searched_s >= SEARCH_S or not is_kubelet(proc, self._pid):
            self._pid, self._searched_s = kubelet_pid(proc), now_s
        return self._pid

    def said(self, arguments: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return a kubelet's arguments as read now, or those of before where none runs, or it is just ending.

        A restart changes no promise: where its files and sockets are is known meanwhile by what it was told before.
        """
        self._said = arguments or self._said
        return self._said

    def version(self, ask: Callable[[], str]) -> str:
        """Return the version of the kubelet that runs. :param ask: asks it; each process is asked once."""
        if self._version is None or self._version[0] != self._pid:
            self._version = self._pid, ask()
        return self._version[1]

    def configured(self, proc: Path, files: dict[str, bytes]) -> dict[str, bytes]:
        """Return the files of the configuration with which the kubelet runs: it reads them when it starts, then never.

        What is edited later is in force from its next start on; while none runs what was in force before holds.

        :param files: as they are now: those of a kubelet that is seen for the first time, or whose start nothing says.
        """
        if self._pid is not None:
            ticks = start_ticks(proc, self._pid)
            started = None if ticks is None else (self._pid, ticks)
            if started is None or started != self._started or not self._config:
                self._started, self._config = started, {} if started is None else files
        return self._config or files


def may_have_begun(proc: Path, since_ns: int) -> bool:
    """Whether a kubelet may have begun since then (CLOCK_MONOTONIC): none runs, one is younger, or one does not say it.

    All of them are looked at: several nodes may run on one machine. What a kubelet wrote since then that is older was
    written by one that did not restart.
    """
    try:
        found = [pid for pid in numbers(proc) if is_kubelet(proc, pid)]
    except OSError:
        return True
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    for pid in found:
        ticks = start_ticks(proc, pid)
        if ticks is None or (ticks + 1) * (1_000_000_000 // os.sysconf("SC_CLK_TCK")) - boot_ns >= since_ns:
            return True
    return not found


class Memory:
    """Of one node. :param kept: reads control files."""

    def __init__(self, kept: KeptFiles = NONE_KEPT) -> None:
        self.kept = kept
        self.kubelet = KubeletProcess()
        self.tree = PodTree(kept)
        self.answers, self.turns = Answers(), Turns()
        self._about: tuple[dict[str, Any], bytes] = {}, b"{}"
        self._cpusets: dict[str, bytes] = {}

    def cpusets(self, hierarchies: Tops) -> dict[str, bytes]:
        """Read the tree; a container whose file says something new is asked for in the same reading, spared or not.

        Its runtime may have been asked for that set and be asked for the old one again before the next reading.
        """
        found = self.tree.cpusets(hierarchies)
        if found == self._cpusets:
            return self._cpusets  # of the same names: those are compared at a glance
        new = [name for name, data in found.items() if self._cpusets.get(name, data) != data]
        places = (place_of(whole_of(f"/{PurePosixPath(name).parent}")) for name in new)
        self.answers.must_ask(place.id for place in places if place is not None)
        self._cpusets = found
        return found

    def about(self, value: dict[str, Any]) -> bytes:
        """Return a capture's description as JSON, written once for all readings that are described alike.

        Texts and mappings of texts only: equal ones have the same JSON.
        """
        if self._about[0] != value:
            self._about = value, json.dumps(value).encode()
        return self._about[1]
