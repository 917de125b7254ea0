"""What the layers and the state files of a node that is followed say, as evidence. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from toolkit.model.claims import SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import LayerView
from toolkit.model.node_reading import MissingPart, NodeReading, RuntimeContainer
from toolkit.model.state_files import CpuEntry, KnownContainer, StateReading
from toolkit.sources.kubelet.claims import NodeClaims, Promise
from toolkit.sources.kubelet.costs import COSTS
from toolkit.sources.kubelet.evidence import layers_of, state_readings
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.modelled import STATIC
from toolkit.sources.kubelet.pod_rows import rows_of
from toolkit.sources.kubelet.static_pods import may_wait


def views(running: Sequence[Promise], reading: NodeReading) -> list[LayerView]:
    """Return what each layer says of the workloads; when it was read is not in it."""
    found, rows = [], rows_of(reading)
    for promise in running:
        if promise.subject.kind in (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL):
            found += layers_of(promise, reading, rows)
    return found


def states(reading: NodeReading, found: NodeClaims, *, lost: bool) -> tuple[StateReading, ...]:
    """A pod whose sandbox is ready owns what it was given, although its containers do not run yet, or wait.

    One that has no sandbox yet waits for its volumes if it has a folder, and may be a static pod that waits for the
    version before it to end: no time bounds either. Where nothing lists the pods and the folders were not read it is
    not known what waits, so what owns the CPUs is not known either.

    Whose sandbox runs no more has ended. When the kubelet takes what it has depends on what the kubelet still knows of
    it: v1.20 was seen to wait for the next admission. It is said, and is a leak when the runtime lists it no more. A
    sandbox of before the machine's start ended with that: its pod waits for its next one.

    :param lost: that there is no CPU manager's file is a word, too, where its configuration says that one is due.
    """
    due = lost and not found.settings.problem and found.settings.config.cpu_manager_policy == STATIC
    if found.cpu is None and found.memory is None and not due:
        return ()
    online = parsed(reading.online or "") or CpuSet()
    listed = [entry for entry in reading.containers or () if entry.sandbox]
    pods, waits = {entry.pod_uid for entry in listed}, {e.pod_uid for e in listed if e.ready or _older(e)}
    idle = tuple(
        KnownContainer(
            pod_uid=entry.pod_uid,
            container=entry.container,
            running=False,
            ended=entry.pod_uid in pods - waits,
            waiting=entry.pod_uid not in pods,
        )
        for entry in ((*found.cpu.entries, *found.cpu.pods) if found.cpu else ())
        if entry.pod_uid in pods or _waits(entry, reading)
    )
    known = reading.pods is not None or reading.pod_folders is not None
    return tuple(
        replace(one, containers=_with(idle, one.containers) if known else None)
        for one in state_readings(reading, found, online)
    )


def _with(
    idle: Sequence[KnownContainer], listed: tuple[KnownContainer, ...] | None
) -> tuple[KnownContainer, ...] | None:
    return None if listed is None else (*listed, *(one for one in idle if not _known(one, listed)))


def _waits(entry: CpuEntry, reading: NodeReading) -> bool:
    return entry.pod_uid in (reading.pod_folders or ()) or may_wait(reading, entry.pod_uid, entry.container)


def _older(sandbox: RuntimeContainer) -> bool:
    """Whether the machine has started since it was made, by the clock of the day."""
    made_ns = sandbox.created_at_ns
    return made_ns is not None and 0 < made_ns < time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _known(one: KnownContainer, known: Sequence[KnownContainer]) -> bool:
    return any(entry.pod_uid == one.pod_uid and one.container in ("", entry.container) for entry in known)


def unmeasured(problem: str) -> tuple[MissingPart, ...]:
    """Return what is missing where metrics were to be read and could not be. :param problem: why; empty: they were."""
    return (MissingPart(part="metrics", reason=f"{problem}: {COSTS['metrics']}"),) if problem else ()


def present(listed: tuple[RuntimeContainer, ...] | None) -> tuple[RuntimeContainer, ...] | None:
    """Leave out lives that have ended: the next life of a container is the same subject, by the same name."""
    return None if listed is None else tuple(entry for entry in listed if entry.state != "exited")


def ended(parsed: NodeReading | None) -> frozenset[str]:
    """Return the ids of containers that the runtime lists as ended."""
    listed = parsed.containers if parsed is not None else None
    return frozenset(entry.id for entry in listed or () if entry.state == "exited")
