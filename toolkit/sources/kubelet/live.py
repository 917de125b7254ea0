"""A live kubelet's node from its files: state files, configuration, cgroup tree, threads, log symlinks. Read-only.

Source: Kubernetes documentation "Local Files And Paths Used By The Kubelet"; cgroup-v2.rst; proc(5).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from toolkit.errors import InputError
from toolkit.model.names import from_path
from toolkit.model.node_reading import (
    UNIFIED,
    CgroupHierarchies,
    MissingPart,
    NamedText,
    NodeReading,
    ThreadReading,
)
from toolkit.sources.kubelet.bundle import V1, parse_cgroups
from toolkit.sources.kubelet.configuration import drop_ins
from toolkit.sources.kubelet.flags import Flags, arguments_of, read_flags
from toolkit.sources.kubelet.subjects import ROOT

MAX_BYTES = 16 * 1024 * 1024
FILES = (
    *("cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"),
    *("cpuset.mems", "cpuset.mems.effective", "cpuset.effective_mems"),
    *("cpu.max", "cpu.max.burst", "cpu.weight", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    *("memory.max", "memory.limit_in_bytes", "cgroup.procs"),
)
"""Control files that a reading holds."""
_LOG = re.compile(r"(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<name>.+)-(?P<id>[0-9a-f]{64})\.log")
_MASK = re.compile(r"^(Cpus|Mems)_allowed_list:\s*(\S*)$", re.MULTILINE)
MAX_DEPTH = 12


def read_live(kubelet_root: Path, cgroup_root: Path, proc: Path, logs: Path, sys: Path) -> NodeReading:
    """Read what files say. A part that is not there is missing, with its reason. Sockets are read elsewhere."""
    times = {"state_read": time.time()}
    missing: list[MissingPart] = []

    def file(path: Path, part: str) -> str | None:
        text, problem = read_text(path)
        if problem:
            missing.append(MissingPart(part=part, reason=f"{from_path(path)}: {problem}"))
        return text

    cpu_state = file(kubelet_root / "cpu_manager_state", "cpu_state")
    memory_state = file(kubelet_root / "memory_manager_state", "memory_state")
    times["cgroup_read"] = time.time()
    cgroups = read_cgroups(cgroup_root)
    if not cgroups:
        missing.append(MissingPart(part="cgroups", reason=f"{from_path(cgroup_root)}: no kubepods cgroup"))
    times["threads_read"] = time.time()
    threads = tuple(_threads(cgroups, proc))
    flags = _kubelet_flags(proc)
    config = _config(kubelet_root, flags)
    if config is None:
        missing.append(MissingPart(part="config", reason=f"{from_path(kubelet_root / 'config.yaml')}: not read"))
    online, _ = read_text(sys / "devices/system/cpu/online")
    return NodeReading(
        config=config,
        kubelet_flags=flags,
        cpu_state=cpu_state,
        memory_state=memory_state,
        cgroups=cgroups or None,
        threads=threads if cgroups else None,
        log_names=_log_names(logs),
        online=(online or "").strip() or None,
        sysfs="".join(_node_lines(sys)),
        read_at_s=times,
        missing=(
            *missing,
            MissingPart(part="containers", reason="no CRI socket was given"),
            MissingPart(part="pods", reason="the kubelet's /pods was not read"),
        ),
    )


def read_text(path: Path) -> tuple[str | None, str]:
    """Read a regular file without waiting on it; else ``None`` and why."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return None, "no regular file"
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return None, error.strerror or str(error)
    if len(data) > MAX_BYTES:
        return None, f"more than {MAX_BYTES} bytes"
    return data.decode("utf-8", "replace"), ""


def read_cgroups(root: Path) -> CgroupHierarchies:
    """Read the control files of everything below ``kubepods``, on v2, v1 and hybrid hosts."""
    found: CgroupHierarchies = {}
    v1 = [name for name in sorted(V1 | {UNIFIED}) if (root / name).is_dir()]
    mounts = [(name, root / name) for name in v1] if any(name in V1 for name in v1) else [(UNIFIED, root)]
    for name, mount in mounts:
        for folder in _pod_folders(mount):
            files = {file: text for file in FILES if (text := read_text(folder / file)[0]) is not None}
            path = "/" + folder.relative_to(mount).as_posix()
            found.setdefault(name, {})[path] = {key: text.rstrip("\n") for key, text in files.items()}
    return found


def _pod_folders(mount: Path) -> Iterator[Path]:
    """Yield ``kubepods`` wherever it is (nodes in containers have it deeper) and all below it."""
    for folder, names, _ in os.walk(mount):
        parts = Path(folder).relative_to(mount).parts
        if len(parts) >= MAX_DEPTH:
            names.clear()
        if any(ROOT.fullmatch(part) for part in parts):
            yield Path(folder)


def _threads(cgroups: CgroupHierarchies, proc: Path) -> Iterator[ThreadReading]:
    seen: set[int] = set()
    for groups in cgroups.values():
        for files in groups.values():
            for word in files.get("cgroup.procs", "").split():
                if word.isascii() and word.isdigit() and int(word) not in seen:
                    seen.add(int(word))
                    yield from _threads_of(int(word), proc)


def _threads_of(pid: int, proc: Path) -> Iterator[ThreadReading]:
    try:
        tids = _numbers(proc / str(pid) / "task")
    except OSError:
        return
    for tid in tids:
        folder = proc / str(pid) / "task" / str(tid)
        status, _ = read_text(folder / "status")
        cgroup, _ = read_text(folder / "cgroup")
        if status is None or cgroup is None:
            continue
        masks = dict(_MASK.findall(status))
        comm, _ = read_text(folder / "comm")
        yield ThreadReading(
            pid=pid,
            tid=tid,
            comm=(comm or "").strip("\n"),
            cgroups=parse_cgroups(cgroup.splitlines()),
            cpus_allowed=masks.get("Cpus"),
            mems_allowed=masks.get("Mems"),
        )


def _numbers(folder: Path) -> list[int]:
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isascii() and entry.name.isdigit())


def _kubelet_flags(proc: Path) -> tuple[str, ...] | None:
    try:
        pids = _numbers(proc)
    except OSError:
        return None
    for pid in pids:
        if (read_text(proc / str(pid) / "comm")[0] or "").strip() == "kubelet":
            return arguments_of(read_text(proc / str(pid) / "cmdline")[0] or "")
    return None


def _config(root: Path, flags: tuple[str, ...] | None) -> tuple[NamedText, ...] | None:
    given = Flags()
    with contextlib.suppress(InputError):  # The reader of the configuration says what is wrong with the flags.
        given = read_flags(flags or ())
    files = [Path(given.config_file or root / "config.yaml")]
    with contextlib.suppress(InputError):
        files += drop_ins(Path(given.config_directory)) if given.config_directory else []
    texts = [(path, read_text(path)[0]) for path in files]
    return tuple(NamedText(name=from_path(path), text=text) for path, text in texts if text is not None) or None


def _log_names(logs: Path) -> dict[str, tuple[str, str, str, str]] | None:
    try:
        names = sorted(entry.name for entry in logs.iterdir())
    except OSError:
        return None
    found = {}
    for name in names:
        match = _LOG.fullmatch(name)
        if match:
            found[match["id"]] = ("", match["namespace"], match["pod"], match["name"])
    return found


def _node_lines(sys: Path) -> Iterator[str]:
    for folder in sorted((sys / "devices/system/node").glob("node[0-9]*")):
        text, _ = read_text(folder / "cpulist")
        if text is not None:
            yield f"/sys/devices/system/node/{folder.name}/cpulist: {text.strip()}\n"
