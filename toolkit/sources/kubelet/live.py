"""A live kubelet's node as the files of a capture, and read as one: what a live node and its capture say is the same.

Read-only. Source: Kubernetes documentation "Local Files And Paths Used By The Kubelet".
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Container, Iterable
from functools import partial
from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host.privileges import Cap, how_to_get
from toolkit.model.node_reading import KUBELET_STARTED, MEMORY_WRITTEN, STATE_REWRITTEN, STATE_WRITTEN, NodeReading
from toolkit.model.state_files import CPU_FILE, MEMORY_FILE
from toolkit.sources import nri
from toolkit.sources.kubelet import (
    allocated,
    config_files,
    devices,
    kept,
    live_files,
    pinned_by,
    pod_folders,
    pod_list,
)
from toolkit.sources.kubelet.absent_parts import allocates
from toolkit.sources.kubelet.bundle import MAIN_CONFIG, reading_of
from toolkit.sources.kubelet.configuration import KubeletConfiguration, configuration_of
from toolkit.sources.kubelet.flags import DEFAULT_ROOT, Flags, kept_arguments, read_flags
from toolkit.sources.kubelet.memory import Memory
from toolkit.sources.kubelet.metrics_text import FILE as METRICS
from toolkit.sources.kubelet.metrics_text import kubelet_version
from toolkit.sources.kubelet.pinner_files import pinner_files
from toolkit.sources.kubelet.places import CGROUP_ROOT, LOGS, PROC, SYS, Places
from toolkit.sources.kubelet.pod_paths import place_of
from toolkit.sources.kubelet.sockets import pod_resources_files, runtime_files
from toolkit.sources.kubelet.version import is_apart, version_of
from toolkit.sources.pod_resources import SOCKET
from toolkit.text.names import printable, shown

SCHEMA = "pinproof.capture/1"
MAX_MANIFESTS = 1000
NOTHING = "no state file, no configuration, no kubepods cgroup and no container"


def read_live(places: Places) -> NodeReading:
    """Read a node. A part that is not there is missing, with its reason."""
    return reading_of(node_files(places))


def says_anything(reading: NodeReading) -> bool:
    """Say whether there is a kubelet's node at all."""
    parts = (reading.cpu_state, reading.cgroups, reading.config, reading.containers)
    return any(part is not None for part in parts)


def nothing(reading: NodeReading) -> str:
    """Return in words why no node was found: a user who may not look is told so."""
    refused = [part.reason for part in reading.missing if os.strerror(errno.EACCES) in part.reason]
    how = how_to_get(Cap.DAC_OVERRIDE)
    return f"nothing that this user may read ({refused[0]}): {how}" if refused else NOTHING


def node_files(places: Places) -> dict[str, bytes]:
    """Return what a node says as the files of a capture: docs/capture-bundle.md."""
    return LiveNode(places).files_of_all()


class LiveNode:
    """One reading in the making: files, where they were, when they were read, what is missing.

    :param memory: of a node that is followed: what claims that are followed do not need is left out (threads, control
        files but those of cpusets, and of the machine everything but which CPUs are online).
    :param metrics: whether the kubelet's own metrics are read, where it is known how.
    """

    def __init__(self, places: Places, *, memory: Memory | None = None, metrics: bool = True) -> None:
        self.places, self.memory = places, memory
        self.metrics = metrics and places.metrics is not None
        self.files: dict[str, bytes] = {}
        self.paths: dict[str, str] = {}
        self.missing: list[dict[str, str]] = []
        self.times: dict[str, float] = {}
        self._written_again = False
        """Whether the CPU manager's file was written during the reading, after it had been read."""
        self.no_metrics = ""
        """Why the metrics could not be read."""
        self.proc = places.proc or places.below(PROC)
        self.sys = places.sys or places.below(SYS)
        self.root = places.cgroup_root or places.below(CGROUP_ROOT)
        self.tops = () if memory is None else live_files.hierarchies(self.root)
        """Name and mount of each hierarchy of cgroups; nothing where they are read as a whole."""
        pid = (live_files.kubelet_pid if memory is None else memory.kubelet.pid)(self.proc)
        arguments = None if pid is None else live_files.process_arguments(self.proc, pid)
        arguments = arguments if memory is None else memory.kubelet.said(arguments)
        self.version = "" if pid is None else version_of(pid, self.proc)
        self._pid = pid
        self.runs = pid is not None
        if memory is None:
            self.times[KUBELET_STARTED] = (live_files.started_s(self.proc, pid) if pid else None) or time.time()
        self.told = bool(arguments)
        """Whether its command line says which file it reads: none that it does not name. One that ends has no words."""
        self.arguments = None if arguments is None else kept_arguments(arguments)
        self.flags, self._understood = Flags(), tuple[str, ...]()
        self.configuration: KubeletConfiguration | None = None
        with contextlib.suppress(InputError):  # The reader of the configuration says what is wrong with the flags.
            self.flags = read_flags(self.arguments or ())
            self._understood = tuple(self.arguments or ())
        self.kubelet_root = places.kubelet_root or places.below(self.flags.root_directory or DEFAULT_ROOT)

    def files_of_all(self) -> dict[str, bytes]:
        """Read everything."""
        places = self.places
        self._at("state_read")
        for part, name, when in (("cpu", CPU_FILE, STATE_WRITTEN), ("memory", MEMORY_FILE, MEMORY_WRITTEN)):
            self._file(f"{part}_state", self.kubelet_root / name, f"kubelet/{name}")
            # Asked after the file was read, so that what was read is no younger.
            if (written_s := self._state_written_s(name)) is not None:
                self.times[when] = written_s
        self._metrics()
        self._allocated()
        self._pinners()
        self._devices()
        self._at("cgroup_read")
        root = self.root
        cgroups = live_files.cgroup_files(root) if self.memory is None else self.memory.cpusets(self.tops)
        self.files |= cgroups
        self._at("threads_read")
        if cgroups and self.memory is not None:
            self._miss("threads", "left out")
        elif cgroups:
            self.files["threads.json"] = _json(live_files.threads(cgroups, self.proc))
        else:
            reason = f"{places.of_node(root)}: no kubepods cgroup"
            self._miss("cgroups", reason)
            self._miss("threads", reason)
        self._configuration()
        self._unversioned()
        self._manifests()
        self._at("sockets_read")
        self._sockets()
        self._pods()
        self._pinned_again()
        self.files["sysfs.txt"] = live_files.sysfs_lines(self.sys, only_online=self.memory is not None).encode()
        logs = live_files.log_names(places.logs or places.below(LOGS))
        if self.memory is not None and "node.json" not in self.files:
            self._nameless(root, cgroups, logs)
        again_s = self._state_written_s()
        self._written_again = again_s != self.times.get(STATE_WRITTEN)
        self._at("end")
        if self._written_again:
            self.times[STATE_REWRITTEN] = self.times["end"] if again_s is None else again_s
        about = {"schema": SCHEMA, "missing": self.missing, "paths": self.paths, "log_names": logs}
        if self.version:
            about["kubelet_version"] = self.version
        written = _json(about) if self.memory is None else self.memory.about(about)
        return self.files | {"capture.json": written, "times.json": _json(self.times)}

    def _nameless(self, root: Path, cgroups: Iterable[str], named: Container[str]) -> None:
        """Take the tasks of cgroups that no log names, where the runtime says nothing: pod sandboxes are among them.

        :param cgroups: files of a capture. :param named: ids of containers.
        """
        found = {}
        for folder in {name.rpartition("/")[0] for name in cgroups}:
            place = place_of(folder)
            if place is not None and place.id and not place.monitors and place.id not in named:
                file = root / folder.removeprefix("cgroup/") / "cgroup.procs"
                found[f"{folder}/cgroup.procs"] = live_files.small_file(str(file)) or b""
        if tasks := live_files.threads(found, self.proc):
            self.files["threads.json"] = _json(tasks)

    def configured(self) -> NodeReading:
        """Read the kubelet's configuration and version alone: no sockets, no cgroups."""
        self._configuration()
        self._unversioned()
        about = {"schema": SCHEMA, "missing": self.missing, "paths": self.paths}
        if self.version:
            about["kubelet_version"] = self.version
        return reading_of(self.files | {"capture.json": _json(about)}, whole=False)

    def written_ago_s(self) -> float | None:
        """Return how long before it was read the CPU manager's file had been written; ``None``: that dates nothing.

        It does not exist, or was written again during the reading: the runtime's word is of the new one then.
        """
        at_s = None if self._written_again else self.times.get(STATE_WRITTEN)
        return None if at_s is None else max(0.0, self.times["state_read"] - at_s)

    def _at(self, what: str) -> None:
        self.times[what] = time.time()

    def _miss(self, part: str, reason: str) -> None:
        self.missing.append({"part": part, "reason": printable(reason)})

    def _file(self, part: str, path: Path, name: str) -> bytes | None:
        data, problem = live_files.read_bytes(self.places.target(path))
        if data is None:
            self._miss(part, f"{self.places.of_node(path)}: {problem}")
        else:
            self.files[name], self.paths[name] = data, self.places.of_node(path)
        return data

    def _state_written_s(self, name: str = CPU_FILE) -> float | None:
        """Return when a state file was written last; ``None``: it does not exist."""
        with contextlib.suppress(OSError):
            return self.places.target(self.kubelet_root / name).lstat().st_mtime
        return None

    def _allocated(self) -> None:
        """Take what the kubelet has allocated to containers, and what of it is in force; older ones have no such files.

        In this order: what is allocated between the two readings is in force in neither.
        """
        for part, file in (("actuated_pods", allocated.ACTUATED), ("allocated_pods", allocated.FILE)):
            path = self.kubelet_root / file
            if allocates(self.version) or os.path.lexists(self.places.target(path)):
                self._file(part, path, f"kubelet/{file}")

    def _pinners(self) -> None:
        """Take what programs beside the kubelet say that they have pinned, where there are any."""
        found, problems = pinner_files(self.places)
        self.files |= found
        for problem in problems:
            self._miss(pinned_by.PART, problem)

    def _pinned_again(self) -> None:
        """Take what was decided anew while the node was read. One that follows it reads it again soon."""
        again = {} if self.memory is not None else pinner_files(self.places)[0]
        if again.get(nri.FILE, b"") != self.files.get(nri.FILE, b"") and nri.FILE in again:
            self.files[nri.FILE_AFTER] = again[nri.FILE]

    def _devices(self) -> None:
        """Take what has which device; a follower learns that from pod-resources. Without plugins there is no file."""
        folder = self.places.kubelet_root or self.places.below(DEFAULT_ROOT)
        path, name = folder / devices.FOLDER / devices.FILE, f"kubelet/{devices.FILE}"
        if self.memory is not None or not os.path.lexists(self.places.target(path)):
            return
        data = self._file("device_state", path, name)
        try:
            if data is not None:
                self.files[name] = _json(devices.kept_file(data, self.places.of_node(path)))
        except InputError as error:
            del self.files[name]
            self._miss("device_state", str(error))

    def _metrics(self) -> None:
        """Take the kubelet's own gauges right after the state file was read: the two are compared."""
        if not self.metrics:
            return
        # Not at the top: most nodes are read without, and need no HTTP client's modules.
        from toolkit.sources.kubelet.metrics import read_metrics

        places = self.places
        try:
            text = read_metrics(places.metrics or "", places.token, places.authority)
        except InputError as error:
            self.no_metrics = printable(str(error))
            # What follows reads them once in a while: what a node says beside them is not new by that.
            if self.memory is None:
                self._miss("metrics", self.no_metrics)
        else:
            self.files[METRICS] = text.encode()

    def _pods(self) -> None:
        """Take which pods have a folder, and the kubelet's own list where it is known how: a follower does without."""
        places = self.places
        try:
            self.files[pod_folders.FILE] = pod_folders.pod_folders(places.target(self.kubelet_root / pod_folders.PODS))
        except OSError as error:
            where = places.of_node(self.kubelet_root / pod_folders.PODS)
            self._miss("pod_folders", f"{where}: {error.strerror or error}")
        try:
            port = "" if self.memory is not None else pod_list.address(self.configuration, self.proc, self._pid)
            if where := places.pods or port:
                self._at("pods_read")
                self.files[pod_list.FILE] = pod_list.read_pods(where, places.token, places.authority)
            else:
                self._miss("pods", "the kubelet's /pods was not read")
        except InputError as error:
            self._miss("pods", str(error))

    def _unversioned(self) -> None:
        """Ask for the version where the kubelet's program did not say it: its metrics, its read-only port, then what
        was given. Say where none of them does, and what would.
        """
        if self.version or kubelet_version(self.files.get(METRICS, b"").decode("utf-8", "replace")):
            return
        where = pod_list.address(self.configuration, self.proc, self._pid, "/metrics")
        by_port = partial(_version_at, where) if where else str
        self.version = by_port() if self.memory is None else self.memory.kubelet.version(by_port)
        self.version = self.version or self.places.version or ""
        if self.version:
            return
        whose = "the running kubelet" if self._pid is not None else "a kubelet whose process is not seen"
        apart = self._pid is not None and is_apart(self._pid, self.proc)
        why = ", because its program is in another mount namespace" if apart else ""
        remedy = "--kubelet-version VERSION, or --kubelet-metrics URL, says it"
        self._miss("version", f"the version of {whose} could not be asked for{why}: {remedy}")

    def _configuration(self) -> None:
        """Take the file, its drop-ins and the command line; keep what they say together for what else is to be read."""
        if self.arguments is not None:
            self.files["kubelet/cmdline"] = "\0".join(("kubelet", *self.arguments)).encode("utf-8", "replace")
        given, folder = self.flags.config_file, self.flags.config_directory
        main = self.places.below(given) if given else None if self.told else self.kubelet_root / "config.yaml"
        inside = self.places.below(folder) if folder else None
        found, problem = config_files.named(main, inside)
        if problem:
            self._miss("drop_ins", problem)
        for name, path in found.items():
            data = self._file("config", path, name)
            try:
                if data is not None:
                    self.files[name] = kept.configuration(data, self.places.of_node(path))
            except InputError as error:
                del self.files[name]
                self._miss("config", str(error))
        now = {name: self.files.pop(name) for name in found if name in self.files}
        started_s = live_files.started_s(self.proc, self._pid) if self._pid else None
        edited = config_files.edited((*found.values(), inside), started_s)
        now = {} if edited else now
        if self.memory is not None:
            now = self.memory.kubelet.configured(self.proc, now)
        if edited and not now:
            self._miss("config", f"{self.places.of_node(edited)}: {config_files.EDITED}")
        self.files |= now
        texts = [(name, data.decode("utf-8", "replace")) for name, data in now.items()]
        base = texts.pop(0) if texts and texts[0][0] == MAIN_CONFIG else None
        with contextlib.suppress(InputError):  # The same reader says it of the capture.
            self.configuration = configuration_of(base, tuple(texts), self._understood)

    def _manifests(self) -> None:
        """Take what pins of the static pods."""
        if self.configuration is None or not self.configuration.static_pod_path:
            return
        place = self.places.below(self.configuration.static_pod_path)
        try:
            files = sorted(place.iterdir())[:MAX_MANIFESTS] if place.is_dir() else [place]
        except OSError as error:
            self._miss("static_pods", f"{self.places.of_node(place)}: {error.strerror or error}")
            return
        for path in files:
            name = f"kubelet/pods/{shown(os.fsencode(path.name))}"
            if path.name.startswith(".") or presence.is_dir(path) or self._file("static_pods", path, name) is None:
                continue
            try:
                self.files[name] = kept.manifest(self.files[name], self.paths[name]).encode("utf-8", "replace")
            except InputError as error:
                del self.files[name]
                self._miss("static_pods", str(error))

    def _sockets(self) -> None:
        answers = self.memory.answers if self.memory is not None else None
        configured = self.configuration.container_runtime_endpoint if self.configuration else ""
        found, problem = runtime_files(self.places.runtime_endpoints(configured), answers=answers)
        self.files |= found
        if problem:
            self._miss("containers", problem)
        found, problem = pod_resources_files(self.places.target(self.kubelet_root / SOCKET), answers=answers)
        self.files |= found
        if problem:
            self._miss("pod_resources", problem)


def _version_at(where: str) -> str:
    """Return the version that the kubelet's metrics at an address say; empty: none."""
    from toolkit.sources.kubelet.metrics import read_metrics  # as above

    with contextlib.suppress(InputError):
        return kubelet_version(read_metrics(where))
    return ""


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()
