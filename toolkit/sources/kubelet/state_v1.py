"""Version 1 of ``cpu_manager_state`` knows containers by the runtime's id: what the runtime says of them names them.

Source: docs/facts.md K-kubelet-5; kubernetes ``pkg/kubelet/cm/cpumanager/state``
(``migrateV1CheckpointToV2Checkpoint``).
"""

from __future__ import annotations

from dataclasses import replace

from toolkit.model.node_reading import NodeReading
from toolkit.model.state_files import CpuStateFile


def named(file: CpuStateFile, reading: NodeReading) -> CpuStateFile:
    """Return the file with pod and container in its entries; an id that the runtime does not list stays one."""
    if file.version != 1:
        return file
    known = {entry.id: entry for entry in reading.containers or ()}
    entries = tuple(
        replace(one, pod_uid=known[one.container].pod_uid, container=known[one.container].name)
        if one.container in known
        else one
        for one in file.entries
    )
    return replace(file, entries=entries)
