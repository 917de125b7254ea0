"""What the pod-resources API says, by the names of pod and container: hundreds of subjects look for their row."""

from __future__ import annotations

from toolkit.model.node_reading import NodeReading, PodResourcesContainer

Rows = dict[tuple[str, str], list[PodResourcesContainer]]


def rows_of(reading: NodeReading) -> Rows:
    """Return the rows of a reading."""
    found: Rows = {}
    for row in reading.pod_resources or ():
        found.setdefault((row.pod_name, row.container), []).append(row)
    return found
