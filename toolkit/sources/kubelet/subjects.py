"""The containers of a node: cgroups below ``kubepods`` joined with what runtime, pods and log names say of them.

Both drivers (``kubepods/burstable/pod<uid>/<id>`` and ``kubepods.slice/...-pod<uid>.slice/<runtime>-<id>.scope``), v2,
v1 and hybrid. Services outside of pods are no subjects. What runs by the runtime's word and has no cgroup where pods
are is lost; trees of pods in which no container is are left over; texts that are no list say nothing: each is named.

Source: docs/facts.md "Normal on a healthy node"; kubernetes ``pkg/kubelet/cm/cgroup_manager_linux.go``,
``pod_container_manager_linux.go`` (``GetAllPodsFromCgroups`` looks below the driver's own names alone).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.kubernetes.feature_gates import CGROUP_DRIVER_FROM_CRI
from toolkit.model.claims import Claim, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import (
    UNIFIED,
    MissingPart,
    NodeReading,
    PodResourcesContainer,
    RuntimeContainer,
    ThreadReading,
)
from toolkit.model.runtimes import CRUN_INNER
from toolkit.sources.json_parts import items, mapping, parsed, text
from toolkit.sources.kubelet.configuration import Settings
from toolkit.sources.kubelet.pod_paths import CONMON, CONTAINER_ID, Place, expand, place_of, pods_root, root_of
from toolkit.sources.kubelet.pods import allocated_names, is_over, pod_documents, statuses
from toolkit.text.names import from_text, printable, to_path
from toolkit.text.wording import count

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
        namespace=subject.namespace,
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


def shown_pod(namespace: str, name: str) -> str:
    """Return how a pod is called: its namespace only where it is not the default one."""
    return printable(name if namespace in ("", "default") else f"{namespace}/{name}")


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
    inner = limited(path, tree)
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
        gone=reading.cgroups is not None and is_gone(path, tree, entry, threads),
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
        runtime is not None and runtime.runs,
        bool(subject.threads),
        not subject.gone,
        (runtime.created_at_ns or 0) if runtime else 0,
    )


Tree = Mapping[str, Mapping[str, str]]
"""Paths to control files."""


def limited(path: str, tree: Tree) -> str:
    """Return the cgroup in a scope that has the limits which the scope lacks; empty: none has.

    A container that may make cgroups can make one of this name, too: what the runtime has limited is the container's.
    """
    inner = f"{path}/{CRUN_INNER}"
    if not path.endswith(".scope") or inner not in tree:
        return ""
    own = tree.get(path, {})
    lacks = not _limits(own) and not own.get("cgroup.procs", "").strip()
    return inner if lacks and _limits(tree[inner]) else ""


def _limits(files: Mapping[str, str]) -> bool:
    return bool(files.get("cpuset.cpus", "").strip()) or not files.get("cpu.max", "max").startswith("max")


def is_gone(path: str, tree: Tree, entry: RuntimeContainer | None, threads: Sequence[ThreadReading]) -> bool:
    """Return whether a container's cgroup is gone, or left: CRI-O keeps one that has ended until it removes it.

    A kubelet updates no container that has ended: what its cgroup still says is no claim's promise. One that the
    runtime calls ended, and in which something runs on, is there.
    Source: cri-o ``server/container_remove.go`` (``DeleteContainer``); containerd deletes it when it ends.
    """
    if path not in tree:
        return True
    if entry is None or entry.state != "exited" or threads:
        return False
    inside = (files for one, files in tree.items() if one == path or one.startswith(f"{path}/"))
    return not any(files.get("cgroup.procs", "").strip() for files in inside)


_FILES = ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems")


def nodes_above(subject: Subject, tree: dict[str, dict[str, str]]) -> CpuSet | None:
    """Return the memory nodes of a container for which the kubelet asked for none: those of its pod's own cgroup.

    A runtime copies them (v1), or the kernel grants them (v2); what else stands there another program wrote.
    Source: opencontainers/cgroups ``fs/cpuset.go`` (``cpusetCopyIfNeeded``); Documentation/admin-guide/cgroup-v2.rst
    (``cpuset.mems.effective``); docs/facts.md K-kubelet-3.

    :param tree: control files by cgroup, as claims name it. :returns: ``None``: they were not read.
    """
    files = tree.get(subject.cgroup.rpartition("/")[0], {})
    return next((parsed(files[name]) for name in _FILES if name in files), None) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A container that runs by the runtime's word, and whose cgroup is not where pods are: nothing can be said of it.

    The cgroups are read first: one that started since then is no loss, and neither is one of which it is not known
    whether it runs and whose cgroup would be in a pod (it has ended). Pods of a kubelet without a cgroup of their own
    (``cgroupsPerQOS: false``), or whose runtime puts them elsewhere (virtual machines), are lost as long as they run.

    :param name: pod and container. :param fresh: it may have started after the cgroups were read.
    """

    id: str
    name: str
    reason: str
    pod_uid: str
    fresh: bool = False


def lost(reading: NodeReading, subjects: Iterable[Subject]) -> tuple[Lost, ...]:
    """Return the containers that run and are no subjects with a cgroup."""
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


SYSTEMD = "systemd"


def root_in_use(tree: Collection[str], subjects: Sequence[Subject], driver: str) -> str | None:
    """Return the cgroup of all pods: that of containers which run, else of others; else as the driver names it.

    :param tree: all cgroups of pods. :param driver: of :func:`driver_in_use`. Where nothing else is found it is not
        believed: a runtime may have given another one to the kubelet.
    """
    here = [one for one in subjects if not one.gone]
    running = [one for one in here if one.threads or (one.runtime is not None and one.runtime.runs)]
    named = [path for path in tree if driver and _is_slice(path) == (driver == SYSTEMD)]
    orders = (map(_path, running), map(_path, here), named, tree, map(_path, subjects))
    return next((root for paths in orders if (root := pods_root(sorted(paths)))), None)


def driver_in_use(reading: NodeReading, known: Settings) -> str:
    """Return the kubelet's cgroup driver; empty: not known.

    The configuration's counts where the runtime names none (containerd before 2.0), and for kubelets before v1.31.
    Source: kubernetes ``pkg/kubelet/kubelet.go``, ``getCgroupDriverFromCRI``; KEP-4033.
    """
    if reading.runtime_driver and known.config.feature_gates[CGROUP_DRIVER_FROM_CRI]:
        return reading.runtime_driver
    return "" if known.problem else known.config.cgroup_driver


def leftovers(tree: Iterable[str], subjects: Iterable[Subject], root: str | None) -> tuple[MissingPart, ...]:
    """Name the other trees of pods, in which there is no container: they are left of a kubelet with the other driver.

    They stay until the machine restarts: the cgroups of all pods, of the QoS classes, and of static pods under the very
    UIDs that they have again. :param root: the one in use.
    """
    used = {root_of(_path(one)) for one in subjects if not one.gone} - {None}
    if not used:
        return ()  # Which of the trees the next pod is in is not known for sure.
    others = {found for found in map(root_of, tree) if found is not None} - used
    reason = f"no container is in this tree of pods beside {printable(root or '')}: nothing is promised about it"
    return tuple(MissingPart(part=printable(one), reason=reason) for one in sorted(others))


def by_pod_cgroup(subjects: Iterable[Subject]) -> dict[str, list[Subject]]:
    """Return containers by the pod's cgroup in which they are, whatever else has the pod's UID in its name."""
    found: dict[str, list[Subject]] = {}
    for one in subjects:
        place = place_of(_path(one))
        if place is not None:
            found.setdefault(place.pod, []).append(one)
    return found


def _is_slice(path: str) -> bool:
    root = root_of(path)
    return root is not None and root.endswith(".slice")


def _path(subject: Subject) -> str:
    return to_path(subject.cgroup)


_SETS = (
    *("cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"),
    *("cpuset.mems", "cpuset.mems.effective", "cpuset.effective_mems"),
)
_SHOWN = 40
_COSTS = {
    "containers": "what the kubelet asked for there is not known",
    "cgroups": "what is in force there is not known",
    "threads": "the mask is left out",
}


def unreadable(reading: NodeReading, subjects: Iterable[Subject]) -> tuple[MissingPart, ...]:
    """Return a line for each source in which a text is no list of CPUs or of memory nodes, with the first one.

    A kernel and a runtime write none: such a text is of a capture that was spoilt, and what it stood for is not known.
    Cgroups in pods that the runtime does not list are named, too: what they are is not known.
    """
    known = tuple(subjects)
    found = []
    for part, texts in (("containers", _asked(known)), ("cgroups", _files(known)), ("threads", _masks(known))):
        wrong = [(name, text) for name, text in texts if text and parsed(text) is None]
        if wrong:
            name, text = wrong[0]
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            reason = f"{name} is {printable(repr(text[:_SHOWN]))}; expected a list such as 0-3{more}: {_COSTS[part]}"
            found.append(MissingPart(part=part, reason=reason))
    number = sum(_unlisted(one) for one in known) if reading.containers is not None else 0
    if number:
        cgroups = count(number, "cgroup of a pod", "cgroups of pods")
        reason = f"{cgroups}, with threads, {'is' if number == 1 else 'are'} in no list of the runtime"
        found.append(MissingPart(part="names", reason=f"{reason}: nothing is promised about their CPUs"))
    return tuple(found)


def _asked(subjects: Iterable[Subject]) -> Iterator[tuple[str, str]]:
    for one in subjects:
        asked = one.runtime.asked if one.runtime is not None else None
        if asked is not None:
            yield f"the runtime's CPU set of {one.name}", asked.cpus or ""
            yield f"the runtime's set of memory nodes of {one.name}", asked.mems or ""


def _files(subjects: Iterable[Subject]) -> Iterator[tuple[str, str]]:
    for one in subjects:
        yield from ((f"{name} of {one.name}", one.files.get(name, "").strip()) for name in _SETS)


def _masks(subjects: Iterable[Subject]) -> Iterator[tuple[str, str]]:
    for one in subjects:
        for thread in one.threads:
            yield f"the CPU mask of thread {thread.tid} of {one.name}", thread.cpus_allowed or ""
            yield f"the memory mask of thread {thread.tid} of {one.name}", thread.mems_allowed or ""


def _unlisted(subject: Subject) -> bool:
    """Whether it is a container's, by its id, and nothing says which one. A pod's sandbox is known by its program."""
    helper = subject.kind is SubjectKind.HELPER and not subject.monitored
    runs = any(thread.comm != PAUSE for thread in subject.threads)
    return helper and runs and subject.runtime is None and bool(CONTAINER_ID.fullmatch(subject.id))


Rows = dict[tuple[str, str], list[PodResourcesContainer]]


def rows_of(reading: NodeReading) -> Rows:
    """Return what pod-resources says by the names of pod and container: hundreds of subjects look for their row."""
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
