"""A capture, in both of its layouts, as a :class:`~toolkit.model.node_reading.NodeReading`: docs/capture-bundle.md."""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.model.node_reading import (
    UNIFIED,
    V1,
    CgroupHierarchies,
    MissingPart,
    NamedText,
    NodeReading,
    ThreadReading,
)
from toolkit.sources import dra_cpu, nri
from toolkit.sources.kubelet import runtime_json
from toolkit.sources.kubelet.absent_parts import PARTS, absent
from toolkit.sources.kubelet.bundle_files import EXPECTED, read_bundle_files
from toolkit.sources.kubelet.capture_parts import Parts
from toolkit.sources.kubelet.devices import FILE as DEVICES
from toolkit.sources.kubelet.flags import arguments_of
from toolkit.sources.kubelet.json_parts import items, mapping, number, text, texts
from toolkit.sources.kubelet.metrics_text import kubelet_version
from toolkit.text import json_text
from toolkit.text.names import printable, raw, to_path

_NODE_TOTAL = re.compile(
    r"^/sys/devices/system/node/node(\d{1,4})/meminfo: Node \d{1,4} MemTotal: +(\d{1,15}) kB(?: \||$)", re.MULTILINE
)
V2_ONLY = frozenset({"cgroup.controllers", "cgroup.type", "cpu.max", "cpu.weight", "cpuset.cpus.effective"})
"""Control files that no v1 hierarchy has."""
MAIN_CONFIG = "kubelet/config.yaml"
MAX_MISSING = 1000
CONTROL_PREFIXES = ("cpu.", "cpuset.", "memory.", "hugetlb.", "cgroup.", "cpuacct.")


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
        cdi=_texts_below(files, (dra_cpu.FOLDER,)),
        kubelet_version=kubelet_version(metrics) or text(about.get("kubelet_version")),
        runtime_name=text(version.get("runtimeName")),
        runtime_version=text(version.get("runtimeVersion")),
        runtime_driver=runtime_json.driver(node),
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
