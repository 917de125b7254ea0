"""What one who follows a kubelet's node keeps from one reading to the next: a reading then costs what has changed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from toolkit.sources.kubelet.answers import Answers
from toolkit.sources.kubelet.live_files import is_kubelet, kubelet_pid
from toolkit.sources.kubelet.pod_tree import PodTree

SEARCH_S = 60.0
"""So often the kubelet is looked for among all processes although the one that is known runs: another of a lower number
may call itself so. One that ends, or calls itself otherwise, is looked for at once."""


class KubeletProcess:
    """Which process is the kubelet, by its number; what it says is read each time, and holds while none runs."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._searched_s = 0.0
        self._said: tuple[str, ...] | None = None

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


class Memory:
    """Of one node."""

    def __init__(self) -> None:
        self.kubelet = KubeletProcess()
        self.tree = PodTree()
        self.answers = Answers()
        self._about: tuple[dict[str, Any], bytes] = {}, b"{}"

    def about(self, value: dict[str, Any]) -> bytes:
        """Return a capture's description as JSON, written once for all readings that are described alike.

        Texts and mappings of texts only: equal ones have the same JSON.
        """
        if self._about[0] != value:
            self._about = value, json.dumps(value).encode()
        return self._about[1]
