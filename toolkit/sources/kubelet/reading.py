"""A node as a :class:`~toolkit.model.node_reading.NodeReading`: the files of a capture, live or not, in both layouts.

Each JSON part has the form that its format asks for, or it is missing, with its reason. A part that is empty is
believed only where the node does not show that it cannot be: a list without containers, beside cgroups of containers,
would promise nothing, and so find nothing wrong. A capture of the first layout has the kubelet's metrics; of the
second, and of those that pinproof writes, the times of the readings and what a kubelet has allocated, if it is one that
writes that.

Source: docs/capture-bundle.md.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.host.privileges import Cap, how_to_get
from toolkit.model.cgroup_manager import CgroupManager
from toolkit.model.claims import AssignedDevice
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.node_reading import (
    UNIFIED,
    V1,
    Asked,
    CgroupHierarchies,
    MissingPart,
    NamedText,
    NodeReading,
    PodResourcesContainer,
    RuntimeContainer,
    ThreadReading,
)
from toolkit.sources import cluster_objects, crio, dra_cpu, nri
from toolkit.sources.json_parts import entries, items, load, mapping, number, text, texts
from toolkit.sources.kubelet.configuration import arguments_of
from toolkit.sources.kubelet.devices import FILE as DEVICES
from toolkit.sources.kubelet.files.allow_list import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from toolkit.sources.kubelet.files.capture import CPU_SETTINGS, EXPECTED, MAIN_CONFIG, read_bundle_files
from toolkit.sources.kubelet.files.capture import METRICS as METRICS
from toolkit.sources.kubelet.files.capture import POD_FOLDERS as POD_FOLDERS
from toolkit.sources.kubelet.files.live import node_files
from toolkit.sources.kubelet.files.process import allocates, kubelet_version
from toolkit.sources.kubelet.pod_paths import CONTAINER_ID, place_of
from toolkit.sources.places import Places
from toolkit.text import json_text
from toolkit.text.names import printable, raw, to_path
from toolkit.text.wording import kind_of

_NODE_TOTAL = re.compile(
    r"^/sys/devices/system/node/node(\d{1,4})/meminfo: Node \d{1,4} MemTotal: +(\d{1,15}) kB(?: \||$)", re.MULTILINE
)
V2_ONLY = frozenset({"cgroup.controllers", "cgroup.type", "cpu.max", "cpu.weight", "cpuset.cpus.effective"})
"""Control files that no v1 hierarchy has."""
MAX_MISSING = 1000
CONTROL_PREFIXES = ("cpu.", "cpuset.", "memory.", "hugetlb.", "cgroup.", "cpuacct.")
PARTS = ("config", "cpu_state", "memory_state", "containers", "pods", "pod_resources", "cgroups", "threads")
"""Fields of a reading, each of which is worth a capture alone."""
SECOND_LAYOUT = frozenset({"node.json", "cgroup.json", "capture.json"})
ABSENT = "not in the capture"
NOTHING = "no state file, no configuration, no kubepods cgroup and no container"


def read_live(places: Places) -> NodeReading:
    """Read a node. A part that is not there is missing, with its reason."""
    return reading_of(node_files(places))


def read_capture(path: Path) -> NodeReading:
    """Read a folder or an archive.

    :raises InputError: it cannot be read, holds no part of a capture, or a part that readers read differently.
    """
    files = read_bundle_files(path)
    for name in sorted(files):
        if name.endswith(".json") and "/" not in name:
            with suppress(json_text.NotJsonError):  # Such a part is missing: a capture may be cut off.
                json_text.check(files[name], f"{path}: {name}")
    reading = reading_of(files)
    if not any(getattr(reading, part) is not None for part in PARTS):
        raise InputError(str(path), "no part of a capture in it", EXPECTED)
    return reading


def says_anything(reading: NodeReading) -> bool:
    """Say whether there is a kubelet's node at all."""
    parts = (reading.cpu_state, reading.cgroups, reading.config, reading.containers)
    return any(part is not None for part in parts)


def nothing(reading: NodeReading) -> str:
    """Return in words why no node was found: a user who may not look is told so."""
    refused = [part.reason for part in reading.missing if os.strerror(errno.EACCES) in part.reason]
    how = how_to_get(Cap.DAC_OVERRIDE)
    return f"nothing that this user may read ({refused[0]}): {how}" if refused else NOTHING


def reading_of(files: dict[str, bytes], *, whole: bool = True) -> NodeReading:
    """Make a reading of a capture's files. A part that is not of its form is missing, with its reason.

    :param whole: whether they are a capture; of a node that is followed some parts are left out, or read elsewhere.
    """
    parts = Parts(files)
    node, containers = parts.load("node.json"), parts.load("containers.json")
    threads, tree = parts.load("threads.json"), parts.load("cgroup.json")
    pods, answers = parts.load("pods.json"), parts.load("podresources.json")
    about = mapping(parts.load("capture.json"))
    version = mapping(mapping(node).get("version"))
    sysfs = parts.sysfs()
    groups = _cgroup_files(files) if tree is None else parts.cgroups(tree)
    parts.cpusets(groups)
    runtime = parts.runtime(node, containers, groups)
    listed, allocatable = parts.pod_resources(answers, node, runtime)
    metrics = _text(files, "metrics_managers.txt")
    reading = NodeReading(
        config=_config(files, texts(about.get("paths"))),
        drop_ins_alone=not _main_config(files),
        kubelet_flags=_flags(files),
        cpu_state=_text(files, "kubelet/cpu_manager_state"),
        memory_state=_text(files, "kubelet/memory_manager_state"),
        device_state=_text(files, f"kubelet/{DEVICES}"),
        containers=runtime,
        pods=parts.pods(pods, runtime, groups),
        pod_folders=parts.pod_folders(),
        static_pods=_texts_below(files, ("kubelet/pods/", "kubelet/manifests/")),
        allocated_pods=_text(files, "kubelet/allocated_pods_state"),
        actuated_pods=_text(files, "kubelet/actuated_pods_state"),
        pod_resources=listed,
        allocatable_cpus=allocatable.cpus,
        allocatable_devices=allocatable.devices,
        cgroups=groups,
        threads=None if threads is None else parts.threads(_threads(threads), groups),
        log_names=_log_names(about),
        sysfs=sysfs,
        node_bytes=_node_bytes(sysfs),
        online=_sysfs_value(sysfs, "/sys/devices/system/cpu/online"),
        metrics=metrics,
        nri_cache=_text(files, nri.FILE),
        nri_cache_after=_text(files, nri.FILE_AFTER),
        cluster_objects=_text(files, cluster_objects.FILE),
        crio=_text(files, crio.FILE),
        cpu_settings=_text(files, CPU_SETTINGS),
        cdi=_texts_below(files, (dra_cpu.FOLDER,)),
        kubelet_version=kubelet_version(metrics) or text(about.get("kubelet_version")),
        runtime_name=text(version.get("runtimeName")),
        runtime_version=text(version.get("runtimeVersion")),
        runtime_driver=driver_of(node),
        read_at_s=parts.times(parts.load("times.json")),
    )
    return _with_missing(reading, [*parts.missing, *_said_missing(about)], files if whole else ())


def _with_missing(reading: NodeReading, missing: list[MissingPart], files: Collection[str]) -> NodeReading:
    named = {part.part for part in missing}
    if reading.kubelet_flags is not None and not any(
        flag.split("=")[0] == "--config" for flag in reading.kubelet_flags
    ):
        named.add("config")  # A kubelet that names no file reads none.
    found = replace(reading, missing=tuple(missing))
    return replace(found, missing=(*missing, *absent(found, files, named)))


def _said_missing(about: dict[str, Any]) -> list[MissingPart]:
    """What the node's reader missed, in its own words."""
    rows = [texts(row) for row in items(about.get("missing"))[:MAX_MISSING]]
    return [MissingPart(part=row.get("part", ""), reason=printable(row.get("reason", ""))) for row in rows]


def _log_names(about: dict[str, Any]) -> dict[str, tuple[str, str, str, str]] | None:
    if "log_names" not in about:
        return None
    found = {}
    for key, value in mapping(about["log_names"]).items():
        row = texts(value)
        pod, namespace, name = (to_path(row.get(what, "")) for what in ("pod", "namespace", "name"))
        found[text(key)] = "", namespace, pod, name
    return found


def _text(files: dict[str, bytes], name: str) -> str | None:
    return files[name].decode("utf-8", "replace") if name in files else None


def _texts_below(files: dict[str, bytes], folders: tuple[str, ...]) -> tuple[NamedText, ...]:
    return tuple(
        NamedText(name=text(name), text=files[name].decode("utf-8", "replace"))
        for name in sorted(files)
        if name.startswith(folders)
    )


def _main_config(files: dict[str, bytes]) -> list[str]:
    return [name for name in (MAIN_CONFIG, "kubelet/config") if name in files][:1]


def _config(files: dict[str, bytes], paths: dict[str, str]) -> tuple[NamedText, ...] | None:
    """Return the main file and the drop-ins, in the kubelet's order: by name, those of folders among them."""
    drop_ins = [name for name in files if name.startswith("kubelet/config.d/") and name.endswith(".conf")]
    names = _main_config(files) + sorted(drop_ins, key=lambda name: [raw(part) for part in name.split("/")])
    return tuple(NamedText(name=paths.get(n, text(n)), text=files[n].decode("utf-8", "replace")) for n in names) or None


def _flags(files: dict[str, bytes]) -> tuple[str, ...] | None:
    raw = _text(files, "kubelet/cmdline")
    return None if raw is None else arguments_of(raw)


def _node_bytes(sysfs: str | None) -> dict[int, int] | None:
    """Return the memory of each NUMA node as the kubelet's discovery reads it; ``None``: it was not captured."""
    found = {int(node): int(kilobytes) * 1024 for node, kilobytes in _NODE_TOTAL.findall(sysfs or "")}
    return found or None


def _sysfs_value(sysfs: str | None, path: str) -> str | None:
    for line in (sysfs or "").splitlines():
        if line.startswith(path + ":"):
            return line[len(path) + 1 :].strip()
    return None


def _path(name: object) -> str:
    """Return a cgroup's path as Python's file functions would hold it; captures spell it for people."""
    return to_path(text(name))


def _cgroup_files(files: dict[str, bytes]) -> CgroupHierarchies | None:
    inside = {name.removeprefix("cgroup/"): data for name, data in files.items() if name.startswith("cgroup/")}
    if not inside:
        return None
    v1 = _is_v1(inside)
    found: CgroupHierarchies = {}
    for name, data in inside.items():
        hierarchy, _, rest = name.partition("/") if v1 else (UNIFIED, "", name)
        path, _, control = rest.rpartition("/")
        if not control.startswith(CONTROL_PREFIXES):
            continue
        groups = found.setdefault(text(hierarchy), {})
        groups.setdefault("/" + _path(path), {})[control] = data.decode("utf-8", "replace").rstrip("\n")
    return found


def _is_v1(inside: Iterable[str]) -> bool:
    """Whether the folders at the top are hierarchies. A cgroup of v2 may be called as a controller of v1 is
    (``--cgroup-root=/memory``), and has files that no v1 hierarchy has; beside v1 only ``unified`` has them.
    """
    tops = {name.split("/", 1)[0] for name in inside if "/" in name}
    unified = {name.split("/", 1)[0] for name in inside if name.rpartition("/")[2] in V2_ONLY}
    return bool((tops & V1) - unified)


def _threads(data: object) -> Iterable[ThreadReading]:
    """Both forms: a list of threads, or processes with their threads."""
    found = []
    for item in items(data):
        entry = mapping(item)
        lines = [text(line) for line in items(entry.get("cgroup"))]
        found.append(_thread(entry.get("tgid"), entry.get("tid"), entry, lines, entry.get("cpus"), entry.get("mems")))
    for pid, value in mapping(data).items():
        entry = mapping(value)
        for tid, given in mapping(entry.get("threads")).items():
            own = mapping(given)
            groups = own.get("cgroup", entry.get("cgroup"))
            lines = text(groups).splitlines() if isinstance(groups, str) else [text(line) for line in items(groups)]
            cpus, mems = own.get("Cpus_allowed_list"), own.get("Mems_allowed_list")
            found.append(_thread(pid, tid, entry | own, lines, cpus, mems))
    return (thread for thread in found if thread is not None)


def _thread(
    pid: object, tid: object, entry: dict[str, Any], lines: list[str], cpus: object, mems: object
) -> ThreadReading | None:
    process, thread = number(pid), number(tid)
    if process is None or thread is None:
        return None
    return ThreadReading(
        pid=process,
        tid=thread,
        comm=_path(entry.get("comm")),
        cgroups={name: to_path(path) for name, path in parse_cgroups(lines).items()},
        cpus_allowed=text(cpus) or None,
        mems_allowed=text(mems) or None,
    )


def parse_cgroups(lines: Iterable[str]) -> dict[str, str]:
    """Read lines of ``/proc/PID/cgroup``: hierarchy (one name per v1 controller) to path."""
    found = {}
    for line in lines:
        parts = line.split(":", 2)
        if len(parts) == 3:
            for name in parts[1].split(",") if parts[1] else [UNIFIED]:
                found[name] = parts[2]
    return found


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


FORMS = {
    "node.json": ("containers", (dict,)),
    "containers.json": ("containers", (dict,)),
    "pods.json": ("pods", (dict,)),
    "podresources.json": ("pod_resources", (dict,)),
    "threads.json": ("threads", (dict, list)),
    "cgroup.json": ("cgroups", (dict,)),
    "times.json": ("times", (dict,)),
    POD_FOLDERS: ("pod_folders", (list,)),
    "capture.json": ("log_names", (dict,)),
}
"""By file: the part that is missing without it, and what its JSON is."""
SYSFS = "/sys/devices/system/"
NO_PODS_LISTED = "the kubelet lists none, while the node runs some"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocatable:
    """The answer of ``GetAllocatableResources``; ``None``: it was not asked for, or the kubelet has none."""

    cpus: tuple[int, ...] | None = None
    devices: tuple[AssignedDevice, ...] | None = None


class Parts:
    """Of one capture. :attr:`missing` has the parts that were there and cannot be used."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self.missing: list[MissingPart] = []

    def load(self, name: str) -> Any:
        """Return a file's JSON; ``None``: it is not there, or is missing with its reason."""
        if name not in self._files:
            return None
        part, forms = FORMS[name]
        try:
            found = load(self._files[name], name)
        except InputError as error:
            self.miss(part, str(error))
            return None
        if not isinstance(found, forms):
            self.miss(part, f"{name}: {kind_of(found)}; expected {' or '.join(kind_of(one()) for one in forms)}")
            return None
        return found

    def miss(self, part: str, reason: str) -> None:
        """Say that a part cannot be used."""
        self.missing.append(MissingPart(part=part, reason=reason))

    def sysfs(self) -> str | None:
        """Return the machine's lines; a text without one says nothing of it."""
        name = "sysfs.txt"
        found = self._files[name].decode("utf-8", "replace") if name in self._files else None
        if found is not None and not any(line.startswith(SYSFS) for line in found.splitlines()):
            self.miss("sysfs", f"{name}: no line of the machine in it; expected lines {SYSFS}...: VALUE")
            return None
        return found

    def runtime(
        self, node: object, containers: object, groups: CgroupHierarchies | None
    ) -> tuple[RuntimeContainer, ...] | None:
        """Return what the runtime lists, by ``node.json``, else by ``containers.json``."""
        found, problem = (None, "") if node is None else checked_cri(node, groups)
        if found is None and containers is not None:
            found, problem = checked_list(containers, groups)
        if problem:
            self.miss("containers", problem)
        return found

    def pods(
        self, answer: object, runtime: Sequence[RuntimeContainer] | None, groups: CgroupHierarchies | None
    ) -> tuple[dict[str, object], ...] | None:
        """Return the kubelet's pods. One that has just started lists none, and has not let go of those that run."""
        if answer is None:
            return None
        try:
            found = tuple(entries(mapping(answer).get("items"), "pods.json: items"))
        except InputError as error:
            self.miss("pods", str(error))
            return None
        if not found and _runs_pods(runtime, groups):
            self.miss("pods", NO_PODS_LISTED)
            return None
        return found

    def pod_folders(self) -> tuple[str, ...] | None:
        """Return the UIDs of pods that have a folder."""
        found = self.load(POD_FOLDERS)
        return None if found is None else tuple(map(text, found))

    def pod_resources(
        self, answers: object, node: object, runtime: Sequence[RuntimeContainer] | None
    ) -> tuple[tuple[PodResourcesContainer, ...] | None, Allocatable]:
        """Return what the kubelet's socket lists, and what can be allocated. It lists all that runs."""
        said = {"List": mapping(node).get("podresources"), "GetAllocatableResources": mapping(node).get("allocatable")}
        said = said if answers is None else mapping(answers)
        listed, whole = said.get("List"), said.get("GetAllocatableResources")
        try:
            found = None if listed is None else pod_resources_rows(listed)
            free = Allocatable()
            if whole is not None:
                free = Allocatable(cpus=cpu_ids(whole), devices=devices(whole))
        except InputError as error:
            self.miss("pod_resources", str(error))
            return None, Allocatable()
        runs = any(one.pod_uid and not one.sandbox and one.runs for one in runtime or ())
        if found == () and runs:
            self.miss("pod_resources", NO_PODS_LISTED)
            found = None
        return found, free

    def cgroups(self, tree: object) -> CgroupHierarchies | None:
        """Return the control files of ``cgroup.json``."""
        found = {
            text(hierarchy): {"/" + to_path(text(path)).strip("/"): texts(own) for path, own in mapping(groups).items()}
            for hierarchy, groups in mapping(tree).items()
        }
        if not any(found.values()):
            self.miss("cgroups", "cgroup.json: no cgroup in it")
            return None
        return found

    def cpusets(self, groups: CgroupHierarchies | None) -> None:
        """Say that no cgroup of a container has a cpuset, where there are such cgroups."""
        files = list(_of_containers(groups))
        if files and not any(name.startswith("cpuset.") for own in files for name in own):
            self.miss("cgroups", "no cpuset of a container in it")

    def threads(
        self, found: Iterable[ThreadReading], groups: CgroupHierarchies | None
    ) -> tuple[ThreadReading, ...] | None:
        """Return the threads; a cgroup with processes in it has some."""
        threads = tuple(found)
        if not threads and any(own.get("cgroup.procs", "").strip() for own in _of_containers(groups)):
            self.miss("threads", "threads.json: no thread in it, while cgroups of containers have processes")
            return None
        return threads

    def times(self, data: object) -> dict[str, float]:
        """Return when each part was read."""
        found = mapping(data)
        wrong = [name for name, value in found.items() if number(value) is None and not isinstance(value, float)]
        if wrong:
            self.miss("times", f"times.json: {wrong[0]} is {kind_of(found[wrong[0]])}; expected a number")
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def _of_containers(groups: CgroupHierarchies | None) -> Iterable[dict[str, str]]:
    for tree in (groups or {}).values():
        for path, files in tree.items():
            place = place_of(path)
            if place is not None and place.id:
                yield files


def _runs_pods(runtime: Sequence[RuntimeContainer] | None, groups: CgroupHierarchies | None) -> bool:
    """Whether the node has pods by the runtime's word; where that is not known, by its cgroups."""
    if runtime is not None:
        return any(one.pod_uid for one in runtime)
    return any(True for _ in _of_containers(groups))


POD_RESOURCES = "podresources.json"
NONE_LISTED = "the runtime's answer lists no containers"


def listed_containers(data: object) -> tuple[RuntimeContainer, ...]:
    """Read ``containers.json``: id to labels, cgroup path and the resources of the runtime's specification."""
    found = []
    for key, value in mapping(data).items():
        entry = mapping(value)
        labels = texts(entry.get("labels"))
        cpu = mapping(mapping(entry.get("resources")).get("cpu"))
        found.append(
            RuntimeContainer(
                id=text(key),
                pod_uid=labels.get(POD_UID, ""),
                name=labels.get(CONTAINER_NAME, ""),
                pod_name=labels.get(POD_NAME, ""),
                pod_namespace=labels.get(POD_NAMESPACE, ""),
                sandbox="sandbox" in (entry.get("type"), labels.get("io.cri-containerd.kind")),
                cgroups_path=text(entry.get("cgroupsPath")),
                asked=_asked(mapping(entry.get("resources"))) if cpu else None,
                huge_sizes=_huge_sizes(entry.get("resources")),
                labels=labels,
            )
        )
    return tuple(found)


def _asked(resources: dict[str, Any]) -> Asked:
    cpu, memory = mapping(resources.get("cpu")), mapping(resources.get("memory"))
    return Asked(
        cpus=text(cpu.get("cpus")),
        mems=text(cpu.get("mems")),
        quota_us=number(cpu.get("quota")),
        period_us=number(cpu.get("period")),
        shares=number(cpu.get("shares")),
        memory_bytes=number(memory.get("limit")),
        memory_high_bytes=_high(resources),
    )


def _high(resources: dict[str, Any]) -> int | None:
    word = texts(resources.get("unified")).get("memory.high")
    return None if word is None else NO_LIMIT if word.strip() == "max" else number(word.strip())


def _huge_sizes(resources: object) -> tuple[str, ...] | None:
    """Return of which sizes of huge pages a specification has limits. A runtime may leave them out of it: containerd's
    ``disable_hugetlb_controller``, which is on by default.
    """
    if not isinstance(resources, dict):
        return None
    return tuple(text(mapping(one).get("pageSize")) for one in items(resources.get("hugepageLimits")))


def from_cri(node: object) -> tuple[RuntimeContainer, ...]:
    """Read the CRI's answers in ``node.json``: ListContainers, ListPodSandbox, ContainerStatus (verbose)."""
    data = mapping(node)
    status = mapping(data.get("status"))
    found = [_sandbox(mapping(item)) for item in items(mapping(data.get("sandboxes")).get("items"))]
    listed_containers = [mapping(item) for item in items(mapping(data.get("containers")).get("containers"))]
    # Protobuf's JSON leaves out the default; a list in which no entry has a state has none to say.
    default = {"state": "CONTAINER_CREATED"} if any("state" in entry for entry in listed_containers) else {}
    found += [
        _container({**default, **entry}, mapping(status.get(text(entry.get("id"))))) for entry in listed_containers
    ]
    return tuple(found)


def driver_of(node: object) -> str:
    """Return the cgroup driver_of by ``RuntimeConfig`` in ``node.json``, as a configuration spells it; else nothing."""
    linux = mapping(mapping(mapping(node).get("runtimeConfig")).get("linux"))
    named = text(linux.get("cgroupDriver")).lower()
    return named if named in (CgroupManager.SYSTEMD, CgroupManager.CGROUPFS) else ""


def checked_cri(node: object, groups: CgroupHierarchies | None) -> tuple[tuple[RuntimeContainer, ...] | None, str]:
    """Read the same, and say what is missing in it; ``None``: there is no list of containers.

    :param groups: the cgroups: protobuf's JSON leaves out a list that is empty, and they show whether it can be.
    """
    answer, data = mapping(node).get("containers"), mapping(node)
    if answer is None:
        return None, NONE_LISTED
    try:
        for what, key in (("containers", "containers"), ("sandboxes", "items")):
            said = data.get(what)
            if said is not None and not isinstance(said, dict):
                raise InputError(f"node.json: {what}", kind_of(said), "a mapping")
            _identified(entries(mapping(said).get(key), f"node.json: {what}"), f"node.json: {what}")
    except InputError as error:
        return None, str(error)
    found = from_cri(node)
    if not _believed(found, groups):
        return None, NONE_LISTED
    asked = [entry.asked for entry in found if entry.state == "running"]
    silent = bool(asked) and all(one is None for one in asked)
    return found, "no status of a running container was read" if silent else ""


def checked_list(
    containers: object, groups: CgroupHierarchies | None
) -> tuple[tuple[RuntimeContainer, ...] | None, str]:
    """Read ``containers.json``, and say what is missing in it, as :func:`checked_cri` does of the other file."""
    data = mapping(containers)
    wrong = next((value for value in data.values() if not isinstance(value, dict)), None)
    if wrong is not None or None in data.values():
        return None, f"containers.json: {kind_of(wrong)} in it; expected mappings"
    found = listed_containers(data)
    if not _believed(found, groups):
        return None, NONE_LISTED
    workloads = [entry for entry in found if not entry.sandbox]
    silent = bool(workloads) and all(one.asked is None for one in workloads)
    return found, "the resources of no container were read" if silent else ""


def _identified(found: list[dict[str, Any]], where: str) -> None:
    if not all(text(entry.get("id")) for entry in found):
        raise InputError(where, "an entry without an id", "an id in each")


def _believed(found: Iterable[RuntimeContainer], groups: CgroupHierarchies | None) -> bool:
    """Whether a list may be that of the node: where there are cgroups of containers, it has containers, and one of the
    cgroups is of what it lists. What is in a pod without a runtime's id is none of a container.
    """
    ids = {place.id for tree in (groups or {}).values() for path in tree if (place := place_of(path)) and place.id}
    if not ids:
        return True
    own = {one for one in ids if CONTAINER_ID.fullmatch(one)}
    entries = list(found)
    return any(not one.sandbox for one in entries) and (not own or any(one.id in own for one in entries))


def _sandbox(entry: dict[str, Any]) -> RuntimeContainer:
    labels, metadata = texts(entry.get("labels")), mapping(entry.get("metadata"))
    return RuntimeContainer(
        id=text(entry.get("id")),
        pod_uid=labels.get(POD_UID) or text(metadata.get("uid")),
        pod_name=labels.get(POD_NAME) or text(metadata.get("name")),
        pod_namespace=labels.get(POD_NAMESPACE) or text(metadata.get("namespace")),
        sandbox=True,
        # Protobuf's JSON leaves out the default, which is that it is ready.
        ready=text(entry.get("state")) != "SANDBOX_NOTREADY",
        created_at_ns=number(entry.get("createdAt")),
        runtime_handler=text(entry.get("runtimeHandler")),
        labels=labels,
        annotations=texts(entry.get("annotations")),
    )


def _container(entry: dict[str, Any], verbose: dict[str, Any]) -> RuntimeContainer:
    labels, status = texts(entry.get("labels")), mapping(verbose.get("status"))
    linux = mapping(mapping(status.get("resources")).get("linux"))
    asked = None
    if linux:
        asked = Asked(
            cpus=text(linux.get("cpusetCpus")),
            mems=text(linux.get("cpusetMems")),
            quota_us=number(linux.get("cpuQuota")),
            period_us=number(linux.get("cpuPeriod")),
            shares=number(linux.get("cpuShares")),
            memory_bytes=number(linux.get("memoryLimitInBytes")),
            memory_high_bytes=_high(linux),
        )
    elif isinstance(verbose.get("resources"), dict):
        asked = _asked(mapping(verbose.get("resources")))
    return RuntimeContainer(
        id=text(entry.get("id")),
        pod_uid=labels.get(POD_UID, ""),
        name=labels.get(CONTAINER_NAME) or text(mapping(entry.get("metadata")).get("name")),
        pod_name=labels.get(POD_NAME, ""),
        pod_namespace=labels.get(POD_NAMESPACE, ""),
        sandbox_id=text(entry.get("podSandboxId")),
        state=text(entry.get("state")).removeprefix("CONTAINER_").lower(),
        pid=number(verbose.get("pid")),
        cgroups_path=text(verbose.get("cgroupsPath")),
        asked=asked,
        huge_sizes=_huge_sizes(verbose.get("resources")),
        dra_cpus=texts(verbose.get("draCpus")),
        log_path=text(status.get("logPath")),
        created_at_ns=number(entry.get("createdAt")),
        started_at_ns=number(status.get("startedAt")) or None,
        labels=labels,
        annotations=texts(entry.get("annotations")),
    )


def pod_resources_rows(data: object) -> tuple[PodResourcesContainer, ...]:
    """Read the answer of ``List``.

    :raises InputError: it is none.
    """
    if not isinstance(data, dict):
        raise InputError(f"{POD_RESOURCES}: List", kind_of(data), "a mapping")
    found: list[PodResourcesContainer] = []
    for pod in entries(mapping(data).get("podResources"), f"{POD_RESOURCES}: podResources"):
        containers = entries(pod.get("containers"), f"{POD_RESOURCES}: containers")
        own = [cpu_ids(container) for container in containers]
        shared = tuple(cpu for cpu in cpu_ids(pod) if not any(cpu in cpus for cpus in own))
        found += [
            PodResourcesContainer(
                pod_name=text(pod.get("name")),
                pod_namespace=text(pod.get("namespace")),
                container=text(container.get("name")),
                cpus=cpus,
                shared=() if cpus else shared,
                devices=(*devices(container), *_of_claims(container)),
            )
            for container, cpus in zip(containers, own, strict=True)
        ]
    return tuple(found)


def cpu_ids(data: object) -> tuple[int, ...]:
    """Read ``cpuIds``, numbers or texts of numbers.

    :raises InputError: they are no such list.
    """
    said = mapping(data).get("cpuIds")
    if not isinstance(data, dict) or not isinstance(said, list | None):
        raise InputError(f"{POD_RESOURCES}: cpuIds", kind_of(said if isinstance(data, dict) else data), "a list")
    found = {number(value) for value in said or ()}
    if any(value is None or value < 0 for value in found):
        raise InputError(f"{POD_RESOURCES}: cpuIds", "an entry that is no CPU's number", "numbers of CPUs")
    return tuple(sorted(value for value in found if value is not None))


def devices(data: object) -> tuple[AssignedDevice, ...]:
    """Read the devices that plugins gave: of a container, or all that can be allocated.

    A kubelet lists a device with its NUMA nodes, and one of several nodes once for each: each is one here.

    :raises InputError: they are no such list.
    """
    nodes: dict[tuple[str, str], set[int]] = {}
    for entry in entries(mapping(data).get("devices"), f"{POD_RESOURCES}: devices"):
        resource, ids = printable(text(entry.get("resourceName"))), entry.get("deviceIds")
        if not isinstance(ids, list | None) or not all(isinstance(one, str) for one in ids or ()):
            raise InputError(f"{POD_RESOURCES}: deviceIds", kind_of(ids), "a list of texts")
        stated = _numa_nodes(entry)
        for one in ids or ():
            nodes.setdefault((resource, printable(text(one))), set()).update(stated)
    return tuple(
        AssignedDevice(id=one, resource=resource, numa_nodes=tuple(sorted(stated)))
        for (resource, one), stated in sorted(nodes.items())
    )


def _numa_nodes(entry: dict[str, Any]) -> set[int]:
    """Return the nodes of an entry's ``topology``; JSON of protocol buffers leaves out the number of node 0."""
    listed = mapping(entry.get("topology")).get("nodes")
    where = f"{POD_RESOURCES}: topology"
    if not isinstance(listed, list | None):
        raise InputError(where, kind_of(listed), "a list of NUMA nodes")
    found = {number(one.get("ID", 0) if isinstance(one, dict) else one) for one in listed or ()}
    if None in found:
        raise InputError(where, "an entry that is no NUMA node", "numbers of NUMA nodes")
    return {node for node in found if node is not None and node >= 0}


def _of_claims(container: dict[str, Any]) -> Iterable[AssignedDevice]:
    """Yield the devices of claims of DRA; kubelets before v1.34 name only what the runtime is given (CDI)."""
    for claim in entries(container.get("dynamicResources"), f"{POD_RESOURCES}: dynamicResources"):
        name = "/".join(printable(text(claim.get(key))) for key in ("claimNamespace", "claimName"))
        for one in entries(claim.get("claimResources"), f"{POD_RESOURCES}: claimResources"):
            cdi = tuple(printable(text(mapping(device).get("name"))) for device in items(one.get("cdiDevices")))
            parts = [printable(text(one.get(key))) for key in ("driverName", "poolName", "deviceName")]
            yield AssignedDevice(id="/".join(filter(None, parts)) or " ".join(cdi) or name, claim=name, cdi=cdi)
