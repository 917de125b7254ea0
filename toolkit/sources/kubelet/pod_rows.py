"""What the pod-resources API says, by the names of pod and container: hundreds of subjects look for their row."""

from __future__ import annotations

from toolkit.model.node_reading import NodeReading, PodResourcesContainer
from toolkit.sources.kubelet.subjects import Subject

Rows = dict[tuple[str, str], list[PodResourcesContainer]]


def rows_of(reading: NodeReading) -> Rows:
    """Return the rows of a reading."""
    found: Rows = {}
    for row in reading.pod_resources or ():
        found.setdefault((row.pod_name, row.container), []).append(row)
    return found


def row_of(subject: Subject, said: Rows) -> PodResourcesContainer | None:
    """Return the row of a subject. Rows have no UIDs: they are of the life that is now."""
    if subject.life:
        return None
    runtime = subject.runtime
    pod = (runtime.pod_name if runtime else "") or subject.pod.rpartition("/")[2]
    rows = [
        row
        for row in said.get((pod, subject.container), ())
        if row.pod_namespace == subject.namespace or not (row.pod_namespace and subject.namespace)
    ]
    return rows[0] if len(rows) == 1 else None
