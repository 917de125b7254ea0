"""The containers of a node: cgroups below ``kubepods`` joined with what runtime, pods and log names say of them.

Both drivers (``kubepods/burstable/pod<uid>/<id>`` and ``kubepods.slice/...-pod<uid>.slice/<runtime>-<id>.scope``), v2,
v1 and hybrid. Services outside of pods are no subjects.

Source: docs/facts.md "Normal on a healthy node".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.node_reading import UNIFIED, NodeReading, RuntimeContainer, ThreadReading
from toolkit.sources.kubelet import own_cgroup
from toolkit.sources.kubelet.allocated import allocated_names
from toolkit.sources.kubelet.json_parts import items, mapping, text
from toolkit.sources.kubelet.pod_paths import CONMON, CONTAINER_ID, Place, expand, place_of
from toolkit.text.names import from_text, printable

SANDBOX = "(sandbox)"
"""How a pod's sandbox is named where a container's name stands."""
PAUSE = "pause"
"""The program of a pod's sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One container, sandbox or helper. :param cgroup: path below the cgroup root.

    :param active: whether the kubelet still lists its pod; ``None``: not known.
    """

    id: str
    kind: SubjectKind
    pod_uid: str
    pod: str
    container: str
    cgroup: str
    namespace: str = ""
    active: bool | None = None
    runtime: RuntimeContainer | None = None
    threads: tuple[ThreadReading, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """Control files of every hierarchy."""
    gone: bool = False
    """The runtime lists it, the cgroup tree was read, and its cgroup is not there, or left of one that has ended."""
    limited: str = ""
    """The cgroup below that has its limits, where it is not itself: crun's inner one."""
    monitored: str = ""
    """Id of the container of which it is the monitor; empty: it is none."""
    life: str = ""
    """What distinguishes it from the subject of the same pod and container that lives; empty: it is that one."""

    nameless: bool = False
    """Nothing says which container it is: not runtime, pods or log. Without tasks it may be a pod sandbox."""

    @property
    def is_workload(self) -> bool:
        """Whether it is a pod's workload."""
        return self.kind in (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL)

    @property
    def plain_name(self) -> str:
        """Pod and container, whichever life of them."""
        return f"{self.pod}/{self.container}"

    @property
    def name(self) -> str:
        """Pod and container, for people, and what distinguishes it from its other lives."""
        return f"{self.plain_name}@{self.life}" if self.life else self.plain_name


def bare_claim(subject: Subject) -> Claim:
    """Return what a subject is, with nothing promised."""
    return Claim(
        name=subject.name,
        cgroup=subject.limited or subject.cgroup,
        pod=subject.pod,
        pod_uid=printable(subject.pod_uid),
        container=subject.container,
        kind=subject.kind,
    )


def merged_tree(reading: NodeReading) -> dict[str, dict[str, str]]:
    """Return path to control files of all hierarchies together: their names differ, or say the same."""
    found: dict[str, dict[str, str]] = {}
    for _, groups in sorted((reading.cgroups or {}).items(), key=lambda item: item[0] != UNIFIED):
        for path, files in groups.items():
            found.setdefault(path, {}).update(files)
    return found


def pod_documents(reading: NodeReading) -> dict[str, dict[str, Any]]:
    """Return pod documents by every uid that the pod goes by: static pods' cgroups carry their hash.

    Of a pod that came by the API the hash is what its author wrote there, and never another pod's uid.
    Source: kubernetes ``pkg/kubelet/config/common.go`` (``applyDefaults``), ``pkg/kubelet/types/pod_update.go``.
    """
    found: dict[str, dict[str, Any]] = {}
    hashes: dict[str, dict[str, Any]] = {}
    for document in reading.pods or ():
        metadata = mapping(document.get("metadata"))
        annotations = mapping(metadata.get("annotations"))
        if text(metadata.get("uid")):
            found[text(metadata.get("uid"))] = document
        own = text(annotations.get("kubernetes.io/config.source")) in ("file", "http")
        if own or "kubernetes.io/config.mirror" in annotations:
            hashes[text(annotations.get("kubernetes.io/config.hash"))] = document
    return found | {uid: document for uid, document in hashes.items() if uid and uid not in found}


def shown_pod(namespace: str, name: str) -> str:
    """Return how a pod is called: its namespace only where it is not the default one."""
    return printable(name if namespace in ("", "default") else f"{namespace}/{name}")


def is_over(document: dict[str, Any]) -> bool:
    """Return whether a pod has ended, or was never admitted."""
    return mapping(document.get("status")).get("phase") in ("Failed", "Succeeded")


def statuses(document: dict[str, Any]) -> dict[str, str]:
    """Return container id to name, of all lists of statuses."""
    status = mapping(document.get("status"))
    found = {}
    for name in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for entry in map(mapping, items(status.get(name))):
            found[text(entry.get("containerID")).rpartition("//")[2]] = text(entry.get("name"))
    return found


def subjects(reading: NodeReading) -> tuple[Subject, ...]:
    """Return every subject, in the order of their names; earlier lives of one have the id in their name."""
    tree, documents = merged_tree(reading), pod_documents(reading)
    runtime = {entry.id: entry for entry in reading.containers or ()}
    places: dict[str, tuple[str, Place]] = {}
    for path in tree:
        place = place_of(path)
        if place is not None and place.id:
            places[place.key] = (path, place)
    for entry in runtime.values():
        path = expand(entry.cgroups_path)
        place = place_of(path)
        if place is not None and place.id and place.key not in places:
            places[place.key] = (path, place)
    threads: dict[str, list[ThreadReading]] = {}
    for thread in reading.threads or ():
        owner = _owner(thread, places)
        if owner:
            threads.setdefault(owner, []).append(thread)
    allocated = allocated_names(reading)
    found = [
        _subject(
            key,
            path,
            place,
            runtime.get(place.id),
            documents.get(place.pod_uid),
            reading,
            threads.get(key, []),
            tree,
            allocated.get(place.pod_uid),
        )
        for key, (path, place) in places.items()
    ]
    return _unique(found)


def _owner(thread: ThreadReading, places: dict[str, tuple[str, Place]]) -> str:
    """The cpuset hierarchy decides where a thread may run: on v1 it is in its own one."""
    path = next((thread.cgroups[name] for name in ("cpuset", UNIFIED) if name in thread.cgroups), "")
    parts = path.strip("/").split("/")
    for end in range(len(parts), 0, -1):
        place = place_of("/" + "/".join(parts[:end]))
        if place is not None and place.key in places:
            return place.key
    return ""


def _subject(
    key: str,
    path: str,
    place: Place,
    listed: RuntimeContainer | None,
    document: dict[str, Any] | None,
    reading: NodeReading,
    threads: list[ThreadReading],
    tree: dict[str, dict[str, str]],
    allocated: frozenset[str] | None,
) -> Subject:
    entry = None if place.monitors else listed  # A monitor has its container's id, and is none itself.
    metadata = mapping((document or {}).get("metadata"))
    log = (reading.log_names or {}).get(key, ("", "", "", ""))
    named = statuses(document).get(key, "") if document else ""
    container = (entry.name if entry else "") or named or log[3]
    pod = (listed.pod_name if listed else "") or text(metadata.get("name")) or log[2] or place.pod_uid
    namespace = (listed.pod_namespace if listed else "") or text(metadata.get("namespace")) or log[1]
    kind = _kind(place, entry, document, container, reading, threads, allocated)
    if kind is SubjectKind.SANDBOX:
        container = SANDBOX
    if place.monitors and listed is not None:
        container = f"({kind} of {SANDBOX if listed.sandbox else listed.name or place.id[:12]})"
    inner = own_cgroup.limited(path, tree)
    return Subject(
        id=printable(key),
        kind=kind,
        pod_uid=place.pod_uid,
        pod=shown_pod(namespace, pod),
        container=printable(container or f"({kind})" if kind is SubjectKind.HELPER else container or key[:12]),
        cgroup=from_text(path) if path else "",
        namespace=printable(namespace),
        active=None if reading.pods is None else document is not None and not is_over(document),
        runtime=entry,
        threads=tuple(threads),
        files=tree.get(inner or path, {}),
        gone=reading.cgroups is not None and own_cgroup.is_gone(path, tree, entry, threads),
        limited=from_text(inner),
        monitored=place.id if place.monitors else "",
        nameless=kind is SubjectKind.CONTAINER and not container,
    )


def _kind(
    place: Place,
    entry: RuntimeContainer | None,
    document: dict[str, Any] | None,
    container: str,
    reading: NodeReading,
    threads: list[ThreadReading],
    allocated: frozenset[str] | None,
) -> SubjectKind:
    if place.monitors:
        return SubjectKind.HELPER
    if entry is not None and entry.sandbox:
        return SubjectKind.SANDBOX
    if container and _is_ephemeral(container, document, allocated):
        return SubjectKind.EPHEMERAL
    if container:
        return SubjectKind.CONTAINER
    if threads and all(thread.comm == PAUSE for thread in threads):
        return SubjectKind.SANDBOX
    if reading.containers is not None or not CONTAINER_ID.fullmatch(place.id):
        return SubjectKind.HELPER
    if document is not None and statuses(document):
        return SubjectKind.SANDBOX
    return SubjectKind.CONTAINER


def _is_ephemeral(container: str, document: dict[str, Any] | None, allocated: frozenset[str] | None) -> bool:
    """Whether its pod lists it so; of a pod that is not listed, whether the kubelet has allocated nothing to it."""
    if document is not None:
        listed = items(mapping(document.get("spec")).get("ephemeralContainers"))
        return any(mapping(item).get("name") == container for item in listed)
    return allocated is not None and container not in allocated


def _unique(found: list[Subject]) -> tuple[Subject, ...]:
    """Name earlier lives apart: the one that lives has the plain name. Pod and container, which join layers, stay."""
    lives: dict[str, list[Subject]] = {}
    for subject in found:
        lives.setdefault(subject.plain_name, []).append(subject)
    named = []
    for same in lives.values():
        living = max(same, key=_alive)
        named += [one if one is living else replace(one, life=one.id.removeprefix(CONMON)[:12]) for one in same]
    return tuple(sorted(named, key=lambda subject: (subject.name, subject.id)))


def _alive(subject: Subject) -> tuple[bool, bool, bool, bool, int]:
    """Order lives of one container: of two that run, the one that the kubelet knows and that was made last."""
    runtime = subject.runtime
    return (
        subject.active is not False,
        runtime is not None and runtime.state in ("running", ""),
        bool(subject.threads),
        not subject.gone,
        (runtime.created_at_ns or 0) if runtime else 0,
    )
