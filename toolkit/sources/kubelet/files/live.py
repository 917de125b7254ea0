"""A live node's bytes as the files of a capture: what a live node and its capture say is then the same.

Read-only. Source: Kubernetes documentation "Local Files And Paths Used By The Kubelet"; kubernetes
``pkg/kubelet/kubelet.go`` (``SyncPod``), ``pkg/kubelet/kubelet_volumes.go`` (``cleanupOrphanedPodDirs``).
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host.cpu_settings import settings_lines
from toolkit.host.file_birth import born_s
from toolkit.host.sysfs import SysTree
from toolkit.model.node_reading import KUBELET_STARTED, MEMORY_WRITTEN, STATE_REWRITTEN, STATE_WRITTEN
from toolkit.model.state_files import CPU_FILE, MEMORY_FILE
from toolkit.regular_file import read_bytes, small_file
from toolkit.sources import nri
from toolkit.sources.kubelet import devices
from toolkit.sources.kubelet.configuration import (
    DEFAULT_ROOT,
    Flags,
    KubeletConfiguration,
    configuration_of,
    drop_ins,
    kept_arguments,
    read_flags,
)
from toolkit.sources.kubelet.files.allow_list import container_list, kept_configuration, kept_manifest
from toolkit.sources.kubelet.files.capture import CPU_SETTINGS, MAIN_CONFIG, METRICS, POD_FOLDERS, PODS
from toolkit.sources.kubelet.files.cgroups import cgroup_files, threads
from toolkit.sources.kubelet.files.pinners import PART, pinner_files
from toolkit.sources.kubelet.files.process import (
    KubeletProcess,
    allocates,
    is_apart,
    kubelet_version,
    start_ticks,
    started_s,
    version_of,
)
from toolkit.sources.kubelet.files.sockets import Answers, pod_resources_files, runtime_files
from toolkit.sources.places import CGROUP_ROOT, LOGS, PROC, SYS, Places
from toolkit.sources.pod_resources import SOCKET
from toolkit.text.names import printable, shown

SCHEMA = "pinproof.capture/1"
MAX_MANIFESTS = 1000
_LOG = re.compile(rb"([^_]+)_([^_]+)_(.+)-([0-9a-f]{64})\.log")
_TOTAL = re.compile(rb"^Node \d+ MemTotal:.*$", re.MULTILINE)
"""Of all lines of a node's memory the one that does not change while it runs."""
_CPU_LINES = ("cpu[0-9]*/topology/*", "cpu[0-9]*/cache/index*/*", "cpu[0-9]*/online")
READS_WITHIN_S = 60.0
"""From a kubelet's start. It reads them once, in its first second; but a script that writes them and becomes the
kubelet (``exec``) has the start of the script.
"""
EDITED = (
    "written, or put in its place, after the kubelet had started and read it; "
    "what it runs with is not known until it restarts"
)


def node_files(places: Places) -> dict[str, bytes]:
    """Return all that a node says as the files of a capture: docs/capture-bundle.md."""
    node = LiveNode(places)
    node.times[KUBELET_STARTED] = node.began_s or time.time()
    node.read_states()
    if problem := node.read_metrics():
        node.miss("metrics", problem)
    node.read_allocations()
    node.read_pinners()
    node.read_devices()
    node.times["cgroup_read"] = time.time()
    cgroups = cgroup_files(node.root)
    node.files |= cgroups
    node.times["threads_read"] = time.time()
    if cgroups:
        node.files["threads.json"] = _json(threads(cgroups, node.proc))
    else:
        node.miss_cgroups("cgroups", "threads")
    node.read_configuration()
    node.read_manifests()
    node.read_sockets(Answers())
    node.read_folders()
    node.read_pods(places.pods or address(node.configuration, node.proc, node.pid))
    # What was decided anew while the node was read; what follows it reads it again soon.
    again = pinner_files(places)[0].get(nri.FILE)
    if again is not None and again != node.files.get(nri.FILE):
        node.files[nri.FILE_AFTER] = again
    node.files["sysfs.txt"] = sysfs_lines(node.sys).encode()
    node.files[CPU_SETTINGS] = settings_lines(SysTree(node.proc), SysTree(node.sys)).encode()
    about = node.about() | {"log_names": node.logs()}
    node.end()
    if answer := node.files.get("node.json"):
        runtime = json.loads(answer)
        node.files |= {"node.json": _json(runtime), "containers.json": _json(container_list(runtime))}
    return node.files | {"capture.json": _json(about), "times.json": _json(node.times)}


class LiveNode:
    """One reading in the making: files, where they were, when they were read, what is missing.

    What is read, and in which order, is its reader's: all of it (:func:`node_files`), what is followed
    (:class:`toolkit.sources.kubelet.follow.Memory`), or the configuration alone.

    :param process: the kubelet as it was at the readings before; ``None``: it is looked for.
    """

    def __init__(self, places: Places, process: KubeletProcess | None = None) -> None:
        self.places = places
        self.files: dict[str, bytes] = {}
        self.paths: dict[str, str] = {}
        self.missing: list[dict[str, str]] = []
        self.times: dict[str, float] = {}
        self._written_again = False
        """Whether the CPU manager's file was written during the reading, after it had been read."""
        self.proc = places.proc or places.below(PROC)
        self.sys = places.sys or places.below(SYS)
        self.root = places.cgroup_root or places.below(CGROUP_ROOT)
        self._process = KubeletProcess() if process is None else process
        self.pid = self._process.pid(self.proc)
        """Of the kubelet; ``None``: none runs."""
        self._ticks = None if self.pid is None else start_ticks(self.proc, self.pid)
        self.began_s = None if self._ticks is None else started_s(self._ticks)
        said = self._process.said(self._process.words)
        self.version = "" if self.pid is None else version_of(self.pid, self.proc)
        self.told = bool(said)
        """Whether its command line says which file it reads: none that it does not name. One that ends has no words."""
        self.arguments = None if said is None else kept_arguments(said)
        self.flags, self._understood = Flags(), tuple[str, ...]()
        self.configuration: KubeletConfiguration | None = None
        with contextlib.suppress(InputError):  # The reader of the configuration says what is wrong with the flags.
            self.flags = read_flags(self.arguments or ())
            self._understood = tuple(self.arguments or ())
        self.kubelet_root = places.kubelet_root or places.below(self.flags.root_directory or DEFAULT_ROOT)
        self.kubelet_folder = places.target(self.kubelet_root)
        """The same without links."""

    def about(self) -> dict[str, Any]:
        """Return what a capture says of itself, in texts and mappings of texts."""
        found: dict[str, Any] = {"schema": SCHEMA, "missing": self.missing, "paths": self.paths}
        return found | ({"kubelet_version": self.version} if self.version else {})

    def written_ago_s(self) -> float | None:
        """Return how long before it was read the CPU manager's file had been written; ``None``: that dates nothing.

        It does not exist, or was written again during the reading: the runtime's word is of the new one then.
        """
        at_s = None if self._written_again else self.times.get(STATE_WRITTEN)
        return None if at_s is None else max(0.0, self.times["state_read"] - at_s)

    def end(self) -> None:
        """Note when the reading ended, and whether the CPU manager's file was written meanwhile."""
        again_s = self._written_s(CPU_FILE)
        self._written_again = again_s != self.times.get(STATE_WRITTEN)
        self.times["end"] = time.time()
        if self._written_again:
            self.times[STATE_REWRITTEN] = self.times["end"] if again_s is None else again_s

    def miss(self, part: str, reason: str) -> None:
        """Say that a part cannot be read."""
        self.missing.append({"part": part, "reason": printable(reason)})

    def miss_cgroups(self, *parts: str) -> None:
        """Say that there are no cgroups of pods, for each part that is missing by that."""
        for part in parts:
            self.miss(part, f"{self.places.of_node(self.root)}: no kubepods cgroup")

    def _own(self, name: str) -> Path:
        """Return where an entry of the kubelet's folder is on this machine, without links."""
        found = self.kubelet_folder / name
        return self.places.target(self.kubelet_root / name) if os.path.islink(found) else found  # noqa: PTH114 a name too long is none

    def _file(self, part: str, path: Path, name: str, place: Path | None = None) -> bytes | None:
        """Take a file. :param path: for people. :param place: without links; ``None``: it is looked for."""
        data, problem = read_bytes(self.places.target(path) if place is None else place)
        if data is None:
            self.miss(part, f"{self.places.of_node(path)}: {problem}")
        else:
            self.files[name], self.paths[name] = data, self.places.of_node(path)
        return data

    def _written_s(self, name: str) -> float | None:
        """Return when a state file was written last; ``None``: it does not exist."""
        with contextlib.suppress(OSError):
            return self._own(name).lstat().st_mtime
        return None

    def read_states(self) -> None:
        """Take the managers' state files."""
        self.times["state_read"] = time.time()
        for part, name, when in (("cpu", CPU_FILE, STATE_WRITTEN), ("memory", MEMORY_FILE, MEMORY_WRITTEN)):
            self._file(f"{part}_state", self.kubelet_root / name, f"kubelet/{name}", self._own(name))
            # Asked after the file was read, so that what was read is no younger.
            if (written_s := self._written_s(name)) is not None:
                self.times[when] = written_s

    def read_metrics(self) -> str:
        """Take the kubelet's own gauges, where it is known how, right after the state file was read: the two are
        compared. Return why they could not be read; empty: they were, or are not to be.
        """
        if self.places.metrics is None:
            return ""
        # Not at the top: most nodes are read without, and need no HTTP client's modules.
        from toolkit.sources.kubelet.files.endpoint import read_metrics

        try:
            text = read_metrics(self.places.metrics, self.places.token, self.places.authority)
        except InputError as error:
            return printable(str(error))
        self.files[METRICS] = text.encode()
        return ""

    def read_allocations(self) -> None:
        """Take what the kubelet has allocated to containers, and what of it is in force; older ones have no such files.

        In this order: what is allocated between the two readings is in force in neither.
        """
        always = allocates(self.version)
        for part in ("actuated_pods", "allocated_pods"):
            name, place = f"{part}_state", self._own(f"{part}_state")
            if always or os.path.lexists(place):
                self._file(part, self.kubelet_root / name, f"kubelet/{name}", place)

    def read_pinners(self) -> None:
        """Take what programs beside the kubelet say that they have pinned, where there are any."""
        found, problems = pinner_files(self.places)
        self.files |= found
        for problem in problems:
            self.miss(PART, problem)

    def read_devices(self) -> None:
        """Take what has which device. Without plugins there is no such file."""
        folder = self.places.kubelet_root or self.places.below(DEFAULT_ROOT)
        path, name = folder / devices.FOLDER / devices.FILE, f"kubelet/{devices.FILE}"
        if not os.path.lexists(self.places.target(path)):
            return
        data = self._file("device_state", path, name)
        if data is not None:
            self.files[name] = _kept_devices(data, self.places.of_node(path))

    def read_folders(self) -> None:
        """Take which pods have a folder: those that the kubelet has begun to start, before it waits for their volumes.

        It removes a folder when the pod has ended and its volumes are unmounted. Where there is none no pod has one.
        """
        folder, names = self.kubelet_root / "pods", []
        try:
            with os.scandir(os.fsencode(self._own("pods"))) as found:
                names = sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            pass
        except OSError as error:
            self.miss("pod_folders", f"{self.places.of_node(folder)}: {error.strerror or error}")
            return
        self.files[POD_FOLDERS] = json.dumps([shown(name) for name in names]).encode()

    def read_pods(self, where: str | None) -> None:
        """Take the kubelet's own list. :param where: an address or a file; nothing: it is not known how."""
        if not where:
            self.miss("pods", "the kubelet's /pods was not read")
            return
        from toolkit.sources.kubelet.files.endpoint import read_pods  # as above

        try:
            self.times["pods_read"] = time.time()
            self.files[PODS] = read_pods(where, self.places.token, self.places.authority)
        except InputError as error:
            self.miss("pods", str(error))

    def read_configuration(self) -> None:
        """Take the file, its drop-ins and the command line; keep what they say together for what else is to be read.
        And the version, on which the configuration's defaults depend.
        """
        if self.arguments is not None:
            self.files["kubelet/cmdline"] = "\0".join(("kubelet", *self.arguments)).encode("utf-8", "replace")
        given, folder = self.flags.config_file, self.flags.config_directory
        main = self.places.below(given) if given else None if self.told else self.kubelet_root / "config.yaml"
        inside = self.places.below(folder) if folder else None
        found, problem = configuration_files(main, inside)
        if problem:
            self.miss("drop_ins", problem)
        now = {}
        for name, path in found.items():
            data = self._file("config", path, name)
            try:
                if data is not None:
                    now[name] = kept_configuration(self.files.pop(name), self.paths[name])
            except InputError as error:
                self.miss("config", str(error))
        edited = edited_since((*found.values(), inside), self.began_s)
        now = self._process.configured(self._ticks, {} if edited else now)
        if edited and not now:
            self.miss("config", f"{self.places.of_node(edited)}: {EDITED}")
        self.files |= now
        texts = [(name, data.decode("utf-8", "replace")) for name, data in now.items()]
        base = texts.pop(0) if texts and texts[0][0] == MAIN_CONFIG else None
        with contextlib.suppress(InputError):  # The same reader says it of the capture.
            self.configuration = configuration_of(base, tuple(texts), self._understood)
        self._ask_for_version()

    def _ask_for_version(self) -> None:
        """Ask for the version where the kubelet's program did not say it: its metrics, its read-only port, then what
        was given. Say where none of them does, and what would.
        """
        if self.version or kubelet_version(self.files.get(METRICS, b"").decode("utf-8", "replace")):
            return
        where = address(self.configuration, self.proc, self.pid, "/metrics")
        self.version = self._process.version(partial(_version_at, where) if where else str) or self.places.version or ""
        if self.version:
            return
        whose = "the running kubelet" if self.pid is not None else "a kubelet whose process is not seen"
        apart = self.pid is not None and is_apart(self.pid, self.proc)
        why = ", because its program is in another mount namespace" if apart else ""
        remedy = "--kubelet-version VERSION, or --kubelet-metrics URL, says it"
        self.miss("version", f"the version of {whose} could not be asked for{why}: {remedy}")

    def read_manifests(self) -> None:
        """Take what pins of the static pods."""
        if self.configuration is None or not self.configuration.static_pod_path:
            return
        place = self.places.below(self.configuration.static_pod_path)
        try:
            files = sorted(place.iterdir())[:MAX_MANIFESTS] if place.is_dir() else [place]
        except OSError as error:
            self.miss("static_pods", f"{self.places.of_node(place)}: {error.strerror or error}")
            return
        for path in files:
            name = f"kubelet/pods/{shown(os.fsencode(path.name))}"
            if path.name.startswith(".") or presence.is_dir(path) or self._file("static_pods", path, name) is None:
                continue
            try:
                self.files[name] = kept_manifest(self.files[name], self.paths[name]).encode("utf-8", "replace")
            except InputError as error:
                del self.files[name]
                self.miss("static_pods", str(error))

    def read_sockets(self, answers: Answers) -> None:
        """Ask the runtime, then the kubelet. :param answers: theirs of before."""
        self.times["sockets_read"] = time.time()
        configured = self.configuration.container_runtime_endpoint if self.configuration else ""
        found, problem = runtime_files(self.places.runtime_endpoints(configured), answers=answers)
        self.files |= found
        if problem:
            self.miss("containers", problem)
        found, problem = pod_resources_files(self.places.target(self.kubelet_root / SOCKET), answers=answers)
        self.files |= found
        if problem:
            self.miss("pod_resources", problem)

    def logs(self) -> dict[str, dict[str, str]]:
        """Return what names of containers' logs say, see :func:`log_names`."""
        return log_names(self.places.logs or self.places.below(LOGS))


def _version_at(where: str) -> str:
    """Return the version that the kubelet's metrics at an address say; empty: none."""
    from toolkit.sources.kubelet.files.endpoint import read_metrics

    with contextlib.suppress(InputError):
        return kubelet_version(read_metrics(where))
    return ""


@lru_cache(maxsize=1)
def _kept_devices(data: bytes, where: str) -> bytes:
    """What is kept of the Device Manager's file, which says the same at most readings."""
    return _json(devices.kept_file(data, where))


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def configuration_files(main: Path | None, folder: Path | None) -> tuple[dict[str, Path], str]:
    """Return the files by their names in a capture, in the order in which they count; and what is wrong with a folder.

    :param main: of ``--config``, or where it is by default. :param folder: of ``--config-dir``.
    """
    found, problem = {} if main is None else {MAIN_CONFIG: main}, ""
    try:
        if folder is not None:
            inside = {shown(os.fsencode(path.relative_to(folder))): path for path in drop_ins(folder)}
            found |= {f"kubelet/config.d/{name}": path for name, path in inside.items()}
    except InputError as error:
        problem = str(error)
    return found, problem


def edited_since(paths: Iterable[Path | None], started_s: float | None) -> Path | None:
    """Return one that was written since the kubelet has read it, if any: it runs with what was there before.

    A file that was put in the place of another may have kept its time of writing (``cp -p``, ``rsync -a``, a package):
    when it was made counts, too, where its file system says. One that is overwritten and given its old time again
    cannot be told from one whose mode was changed.

    :param paths: the files, and their folder, which is written to when one of them comes, goes or is renamed.
    :param started_s: when the kubelet started, by the clock that dates files; ``None``: not known, as is what it read.
    """
    if started_s is None:
        return None
    for path in paths:
        with suppress(OSError):
            if path is None:
                continue
            found = path.stat()
            made_s = born_s(path) if stat.S_ISREG(found.st_mode) else None
            if max(found.st_mtime, made_s or 0.0) > started_s + READS_WITHIN_S:
                return path
    return None


def address(configuration: KubeletConfiguration | None, proc: Path, pid: int | None, path: str = "/pods") -> str:
    """Return where a running kubelet answers without credentials; empty: nowhere that can be reached from here.

    :param path: what is asked for there. :param proc: where processes are.
    :param pid: the kubelet. One in another network namespace has other ports.
    """
    if configuration is None or not 0 < configuration.read_only_port < 1 << 16 or pid is None:
        return ""
    try:
        if not (proc / str(pid) / "ns/net").samefile("/proc/self/ns/net"):
            return ""
        given = ipaddress.ip_address(configuration.address or "0.0.0.0")  # noqa: S104 its default: all addresses
    except (OSError, ValueError):
        return ""
    host = ("127.0.0.1" if given.version == 4 else "::1") if given.is_unspecified else str(given)
    return f"http://{f'[{host}]' if ':' in host else host}:{configuration.read_only_port}{path}"


def log_names(logs: Path) -> dict[str, dict[str, str]]:
    """Return container id to pod, namespace and container name, by the kubelet's log symlinks; nothing changes it."""
    try:
        with os.scandir(os.fsencode(logs)) as entries:
            return _of_logs(tuple(sorted(entry.name for entry in entries)))
    except OSError:
        return {}


@lru_cache(4)
def _of_logs(names: tuple[bytes, ...]) -> dict[str, dict[str, str]]:
    """Read names of links once for all readings in which they are the same ones: all that is said is in them."""
    matches = [match for match in map(_LOG.fullmatch, names) if match]
    return {m[4].decode(): {"pod": shown(m[1]), "namespace": shown(m[2]), "name": shown(m[3])} for m in matches}


def sysfs_lines(sys: Path, *, only_online: bool = False) -> str:
    """Return ``sysfs.txt``: ``PATH: VALUE``, paths as on the node."""
    cpu, node = sys / "devices/system/cpu", sys / "devices/system/node"
    files = [cpu / "online"]
    if not only_online:
        files += [cpu / name for name in ("present", "possible", "isolated", "smt/active", "smt/control")]
        files += [file for pattern in _CPU_LINES for file in presence.below(cpu, pattern)]
        files += [file for name in ("cpulist", "distance") for file in presence.below(node, f"node[0-9]*/{name}")]
        files += presence.below(sys / "bus/pci/devices", "*/numa_node")
    lines = []
    for file in files:
        data = small_file(str(file))
        if data is not None:
            lines.append(f"/sys/{shown(os.fsencode(file.relative_to(sys)))}: {shown(data.strip())}\n")
    for file in presence.below(node, "node[0-9]*/meminfo"):
        total = _TOTAL.search(small_file(str(file)) or b"")
        if total is not None:
            lines.append(f"/sys/{shown(os.fsencode(file.relative_to(sys)))}: {shown(total[0])}\n")
    return "".join(lines)
