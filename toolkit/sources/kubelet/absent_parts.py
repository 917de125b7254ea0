"""Parts that a capture lacks, of those that its layout has: what they would say is not known, and is named.

A capture of the first layout has the kubelet's metrics; of the second, and of those that pinproof writes, the times of
the readings and what a kubelet has allocated, if it is one that writes that. Source: docs/capture-bundle.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from toolkit.errors import InputError
from toolkit.kubernetes.kubelet_version import series_of
from toolkit.kubernetes.releases import ALLOCATED_STATE
from toolkit.model.node_reading import MissingPart, NodeReading
from toolkit.sources.kubelet.metrics_text import FILE as METRICS

PARTS = ("config", "cpu_state", "memory_state", "containers", "pods", "pod_resources", "cgroups", "threads")
"""Fields of a reading, each of which is worth a capture alone."""
SECOND_LAYOUT = frozenset({"node.json", "cgroup.json", "capture.json"})
ABSENT = "not in the capture"


def absent(reading: NodeReading, files: Collection[str], named: Collection[str]) -> tuple[MissingPart, ...]:
    """Return the parts that are not there.

    :param files: of the capture; none: there is none, and no layout that asks for more. :param named: parts of which it
        is known why.
    """
    parts = [field for field in PARTS if getattr(reading, field) is None]
    parts += _of_layout(reading, files) if files else ()
    return tuple(MissingPart(part=part, reason=ABSENT) for part in parts if part not in named)


def _of_layout(reading: NodeReading, files: Collection[str]) -> Iterator[str]:
    second = not SECOND_LAYOUT.isdisjoint(files)
    if reading.sysfs is None:
        yield "sysfs"
    if METRICS not in files and not second:
        yield "metrics"
    if "times.json" not in files and second:
        yield "times"
    # Of a kubelet whose version nothing could ask for it is not known whether it writes them.
    said = reading.kubelet_version
    known = allocates(said) if said else not any(part.part == "version" for part in reading.missing)
    if not (second and known):
        return
    if reading.allocated_pods is None:
        yield "allocated_pods"
    if reading.actuated_pods is None:
        yield "actuated_pods"


def allocates(version: str) -> bool:
    """Whether a kubelet of this version writes what it has allocated; what is built from no release is new."""
    try:
        found = series_of(version, "kubelet_version")
    except InputError:
        return False
    return not found[0] or ALLOCATED_STATE.of(found) is True
