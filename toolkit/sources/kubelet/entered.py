"""Containers that came into a followed node's state file, counted as the kubelet counts its assignments."""

from __future__ import annotations

from toolkit.model.state_files import CpuStateFile

NODE, POD = "node", "pod"
"""Whose CPUs they got: the node's, or their pod's budget."""


class Entered:
    """Since the node is followed. What came and went between two readings is not seen."""

    def __init__(self) -> None:
        self._file: CpuStateFile | None = None
        self._there: frozenset[tuple[str, str]] | None = None
        self._counts = {NODE: 0, POD: 0}

    def of(self, file: CpuStateFile | None) -> dict[str, int]:
        """Return how many came, up to this reading; nothing where the file says nothing."""
        if file is None or file.problem or not file.checksum_ok or file.policy != "static":
            return {}
        if file is not self._file:
            budgets = {entry.pod_uid for entry in file.pods}
            there = frozenset((entry.pod_uid, entry.container) for entry in file.entries)
            for uid, _ in there - self._there if self._there is not None else ():
                self._counts[POD if uid in budgets else NODE] += 1
            self._file, self._there = file, there
        return dict(self._counts)
