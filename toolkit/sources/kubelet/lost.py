"""Containers that run by the runtime's word, and of which nothing can say anything: their cgroup is not where pods are.

The cgroups are read first: one that started since then is no loss, and neither is one of which it is not known whether
it runs and whose cgroup would be in a pod (it has ended). Pods of a kubelet without a cgroup of their own
(``cgroupsPerQOS: false``), or whose runtime puts them elsewhere (virtual machines), are lost as long as they run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.model.node_reading import MissingPart, NodeReading, RuntimeContainer
from toolkit.sources.kubelet.pod_paths import expand
from toolkit.sources.kubelet.subjects import Subject, shown_pod
from toolkit.text.names import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """One of them. :param name: pod and container. :param fresh: it may have started after the cgroups were read."""

    id: str
    name: str
    reason: str
    pod_uid: str
    fresh: bool = False


def lost(reading: NodeReading, subjects: Iterable[Subject]) -> tuple[Lost, ...]:
    """Return the containers that run and are no subjects with a cgroup, in the runtime's order."""
    known = {one.runtime.id: one for one in subjects if one.runtime is not None}
    found = []
    for entry in reading.containers or ():
        subject = known.get(entry.id)
        # A list without states is that of all containers of the runtime, pods' or not.
        runs = entry.state == "running" or (not entry.state and subject is None and entry.pod_uid)
        if entry.sandbox or not runs or not (subject is None or subject.gone):
            continue
        pod = shown_pod(entry.pod_namespace, entry.pod_name or entry.pod_uid)
        name = subject.name if subject is not None else printable(f"{pod}/{entry.name or entry.id[:12]}")
        reason = _reason(entry, subject)
        fresh = _began_later(entry, reading)
        found.append(Lost(id=entry.id, name=name, reason=reason, pod_uid=entry.pod_uid, fresh=fresh))
    return tuple(found)


def lasting(reading: NodeReading, subjects: Iterable[Subject]) -> tuple[MissingPart, ...]:
    """Return those that one reading shows to be lost."""
    return tuple(MissingPart(part=one.name, reason=one.reason) for one in lost(reading, subjects) if not one.fresh)


def _reason(entry: RuntimeContainer, subject: Subject | None) -> str:
    if subject is not None:
        return f"its cgroup was not found: {subject.cgroup} is where the runtime has put it"
    if not entry.cgroups_path:
        return "its cgroup was not found: the runtime does not say where it has put it"
    return f"its cgroup is in no pod: {printable(expand(entry.cgroups_path))} is where the runtime has put it"


def _began_later(entry: RuntimeContainer, reading: NodeReading) -> bool:
    began_ns, at_s = entry.started_at_ns or entry.created_at_ns, reading.read_at_s.get("cgroup_read")
    return began_ns is not None and at_s is not None and began_ns >= at_s * 1e9
