"""What the layers and the state files of a node that is followed say, as evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toolkit.model.claims import SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import LayerView
from toolkit.model.node_reading import NodeReading
from toolkit.model.state_files import KnownContainer, StateReading
from toolkit.sources.kubelet.claims import NodeClaims, Promise, parsed
from toolkit.sources.kubelet.evidence import layers_of, state_readings
from toolkit.sources.kubelet.modelled import STATIC
from toolkit.sources.kubelet.pod_rows import rows_of


def views(running: Sequence[Promise], reading: NodeReading) -> list[LayerView]:
    """Return what each layer says of the workloads; when it was read is not in it."""
    found, rows = [], rows_of(reading)
    for promise in running:
        if promise.subject.kind in (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL):
            found += layers_of(promise, reading, rows)
    return found


def states(reading: NodeReading, found: NodeClaims, *, lost: bool) -> tuple[StateReading, ...]:
    """A pod whose sandbox runs owns what it was given, although its containers may not have been made yet.

    :param lost: that there is no CPU manager's file is a word, too, where its configuration says that one is due.
    """
    due = lost and not found.settings.problem and found.settings.config.cpu_manager_policy == STATIC
    if found.cpu is None and found.memory is None and not due:
        return ()
    online = parsed(reading.online or "") or CpuSet()
    pods = {entry.pod_uid for entry in reading.containers or () if entry.sandbox}
    waiting = tuple(
        KnownContainer(pod_uid=entry.pod_uid, container=entry.container, running=False)
        for entry in (found.cpu.entries if found.cpu else ())
        if entry.pod_uid in pods
    )
    return tuple(
        replace(one, containers=(*one.containers, *(w for w in waiting if not _known(w, one.containers))))
        if one.containers is not None
        else one
        for one in state_readings(reading, found, online)
    )


def _known(one: KnownContainer, known: Sequence[KnownContainer]) -> bool:
    return any((entry.pod_uid, entry.container) == (one.pod_uid, one.container) for entry in known)
