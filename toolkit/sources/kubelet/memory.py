"""What one who follows a kubelet's node keeps from one reading to the next: a reading then costs what has changed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from toolkit.sources.kubelet.answers import Answers
from toolkit.sources.kubelet.live_files import is_kubelet, kubelet_pid, process_arguments
from toolkit.sources.kubelet.pod_tree import PodTree

SEARCH_S = 60.0
"""So often the kubelet is looked for among all processes although the one that is known runs: another of a lower number
may call itself so. One that ends, or calls itself otherwise, is looked for at once."""


class KubeletProcess:
    """Which process is the kubelet: its number is kept, and nothing that it says."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._searched_s = 0.0

    def arguments(self, proc: Path) -> tuple[str, ...] | None:
        """Return its arguments now, without its own name; ``None``: none runs."""
        now_s = time.monotonic()
        if self._pid is None or now_s - self._searched_s >= SEARCH_S or not is_kubelet(proc, self._pid):
            self._pid, self._searched_s = kubelet_pid(proc), now_s
        return None if self._pid is None else process_arguments(proc, self._pid)


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
