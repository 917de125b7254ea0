"""The gauges of the kubelet's CPU manager, and what its state file says beside them. Pure.

Source: kubelet metrics documentation; docs/facts.md K-kubelet-9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.following import KUBELET_START, Gauges
from toolkit.model.state_files import CpuStateFile
from toolkit.sources.kubelet.configuration import Settings
from toolkit.sources.kubelet.files.capture import METRICS

PREFIXES = ("kubelet_cpu_manager_", "resource_manager_", KUBELET_START)


_SAMPLE = re.compile(r"^[A-Za-z_:][A-Za-z0-9_:]*(?:\{.*\})?[ \t]+[-+]?(?:[0-9.]|Inf|NaN)", re.MULTILINE)


def manager_gauges(text: str | None) -> dict[str, float]:
    """Return the samples of the CPU manager, the counters of all managers, and when the kubelet started; nothing of a
    text that is no metrics (:func:`unread` says why).
    """
    try:
        found = _samples(text or "")
    except InputError:
        return {}
    return {name: value for name, value in found.items() if value >= 0}


@lru_cache(4)
def unread(text: str) -> str:
    """Say why nothing of a text can be compared; empty: it is a kubelet's metrics, whichever these are.

    Asked with each reading of a node that is followed, while it says the same.
    """
    if not _SAMPLE.search(text):
        return f"{METRICS}: no sample in it; expected a kubelet's metrics in Prometheus's text format"
    try:
        _samples(text)
    except InputError as error:
        return str(error)
    return ""


def _samples(text: str) -> Mapping[str, float]:
    """:raises InputError: a line of them is no sample."""
    lines = [f"{line}\n" for line in text.splitlines() if line.startswith(PREFIXES)]
    if not lines:
        return {}
    # Not at the top: see `live.py`.
    from toolkit.sources.kubelet.files.endpoint import gauges

    return gauges("".join(lines))


def gauges_beside(
    values: dict[str, float], problem: str, file: CpuStateFile | None, known: Settings, entered: dict[str, int]
) -> Gauges:
    """Return both together. A file that is spoilt, of another policy, or of a manager that has not started says nothing
    that could be compared.

    :param entered: see :class:`toolkit.model.evidence.following.Gauges`.
    """
    says = file is not None and file.policy == "static" and not file.problem and file.checksum_ok
    if file is None or not says or not (file.default or file.entries or file.pods):
        return Gauges(values=values, problem=problem, entered=entered)
    try:
        assigned = CpuSet.union(CpuSet.parse(entry.cpus) for entry in (*file.entries, *file.pods))
        shared = CpuSet.parse(file.default) - known.reserved if known.reserved_known else None
    except InputError:
        return Gauges(values=values, problem=problem)
    return Gauges(values=values, problem=problem, assigned=assigned, shared=shared, entered=entered)


NODE, POD = "node", "pod"
"""Whose CPUs they got: the node's, or their pod's budget."""


class Entered:
    """How many containers came into the state file since the node is followed.

    What came and went between two readings is not seen.
    """

    def __init__(self) -> None:
        self._file: CpuStateFile | None = None
        self._there: frozenset[tuple[str, str]] | None = None
        self._counts = {NODE: 0, POD: 0}

    def of(self, file: CpuStateFile | None) -> dict[str, int]:
        """Return how many came, up to this reading; nothing where the file says nothing."""
        if file is None or file.problem or not file.checksum_ok or file.policy != "static":
            return {}
        if file != self._file:
            budgets = {entry.pod_uid for entry in file.pods}
            there = frozenset((entry.pod_uid, entry.container) for entry in file.entries)
            for uid, _ in there - self._there if self._there is not None else ():
                self._counts[POD if uid in budgets else NODE] += 1
            self._file, self._there = file, there
        return dict(self._counts)
