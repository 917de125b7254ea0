"""Small readers of a live node's files: each returns a part of a capture. Read-only; nothing waits, all is bounded.

Source: proc(5); cgroup-v2.rst; cgroup-v1/cpusets.rst.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host import side_files
from toolkit.host.cgroup_paths import directories
from toolkit.host.procfs import ticks_of
from toolkit.model.node_reading import UNIFIED, V1
from toolkit.model.state_files import KUBELETS
from toolkit.regular_file import read_regular, regular_descriptor
from toolkit.sources.kubelet.flags import arguments_of, serves
from toolkit.sources.kubelet.pod_paths import ROOT
from toolkit.text.names import shown

MAX_BYTES = 16 * 1024 * 1024
_PART = 1 << 16
FILES = (
    *("cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"),
    *("cpuset.mems", "cpuset.mems.effective", "cpuset.effective_mems"),
    *("cpu.max", "cpu.max.burst", "cpu.weight"),
    *("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"),
    *("memory.max", "memory.limit_in_bytes", "cgroup.procs"),
    *(*side_files.CPU, *side_files.CPUSET, *side_files.MEMORY),
)
"""Control files that a reading holds."""
_HUGE = re.compile(r"hugetlb\.\d{1,6}[KMG]B\.(?:max|limit_in_bytes)", re.ASCII)
_LOG = re.compile(rb"([^_]+)_([^_]+)_(.+)-([0-9a-f]{64})\.log")
_DEAD = re.compile(rb"^State:\t[ZX]", re.MULTILINE)
_MASK = re.compile(rb"^(Cpus|Mems)_allowed_list:\s*(\S*)$", re.MULTILINE)
_TOTAL = re.compile(rb"^Node \d+ MemTotal:.*$", re.MULTILINE)
"""Of all lines of a node's memory the one that does not change while it runs."""
MAX_DEPTH = 12
_CPU_LINES = ("cpu[0-9]*/topology/*", "cpu[0-9]*/cache/index*/*", "cpu[0-9]*/online")


EMBEDDING = tuple(name.encode() for name in KUBELETS if name != "kubelet")
"""Programs that are a kubelet among other things."""


def read_bytes(path: Path | str) -> tuple[bytes | None, str]:
    """Read a regular file without waiting on it, never through a link; else ``None`` and why."""
    try:
        return read_regular(path, MAX_BYTES), ""
    except (OSError, ValueError) as error:
        return None, getattr(error, "strerror", None) or str(error)


def bytes_of(path: Path, expected: str) -> bytes:
    """Return the same of a file that the user named, through links: a pod's own token is one.

    :raises InputError: it cannot be read.
    """
    data, problem = read_bytes(os.path.realpath(path))
    if data is None:
        raise InputError(str(path), problem, expected)
    return data


def small_file(path: str) -> bytes | None:
    """Read the same of one of thousands; ``None``: it cannot be read."""
    try:
        descriptor = regular_descriptor(path)
    except (OSError, ValueError):
        return None
    try:
        found = os.read(descriptor, _PART)
        # A file of the kernel's may give less than was asked for in the middle: only nothing is the end.
        while part := os.read(descriptor, _PART) if found else b"":
            found += part
            if len(found) > MAX_BYTES:
                return None
        return found
    except OSError:
        return None
    finally:
        os.close(descriptor)


def cgroup_files(root: Path) -> dict[str, bytes]:
    """Read the control files of everything below ``kubepods``, on v2, v1 and hybrid hosts.

    :returns: a capture's ``cgroup/...`` files, names spelt as :mod:`toolkit.text.names` does.
    """
    found: dict[str, bytes] = {}
    for hierarchy, mount in hierarchies(root):
        name = f"{hierarchy}/" if hierarchy else ""
        for folder, path in _pod_folders(str(mount)):
            for file in inside(folder):
                data, _ = read_bytes(f"{folder}/{file}")
                if data is not None:
                    found[f"cgroup/{name}{path}/{file}"] = data
    return found


Tops = tuple[tuple[str, Path], ...]
"""Name and mount of each hierarchy of cgroups."""


def hierarchies(root: Path) -> Tops:
    """Return name and mount of each hierarchy; the one of a v2 host has no name, whatever cgroups it has are named."""
    names = [name for name in sorted(V1 | {UNIFIED}) if presence.is_dir(root / name)]
    if not any(name in V1 for name in names) or presence.exists(root / "cgroup.controllers"):
        return (("", root),)
    return tuple((name, root / name) for name in names)


def _pod_folders(mount: str) -> Iterator[tuple[str, str]]:
    """Yield ``kubepods`` wherever it is (nodes in containers have it deeper) and all below it: the folder, its path
    spelt.
    """
    for folder, _ in directories(mount, MAX_DEPTH):
        path = folder[len(mount) :].strip("/")
        if is_of_pods(path):
            yield folder, shown(os.fsencode(path))


def is_of_pods(path: str) -> bool:
    """Whether a cgroup, by its path below the mount, is ``kubepods`` or below one."""
    return any(ROOT.fullmatch(part) for part in path.split("/"))


def inside(folder: str) -> list[str]:
    """Return which of the wanted files a folder has."""
    try:
        with os.scandir(folder) as entries:
            there = {entry.name for entry in entries}
    except OSError:
        return []
    return [file for file in FILES if file in there] + sorted(filter(_HUGE.fullmatch, there))


def threads(cgroups: dict[str, bytes], proc: Path) -> dict[str, Any]:
    """Return ``threads.json``: the processes in these cgroups, each with the masks of its threads."""
    words = {
        word for name, data in cgroups.items() if name.endswith("/cgroup.procs") for word in data.split() if _id(word)
    }
    found = {}
    for pid in sorted(words, key=int):
        process = _process(proc / pid.decode())
        if process["threads"]:
            found[pid.decode()] = process
    return found


def _id(word: bytes) -> bool:
    return word.isdigit() and len(word) < 10


def _process(folder: Path) -> dict[str, Any]:
    """Name and cgroups stand once, and again for a thread where its own ones are others."""
    whole: dict[str, Any] = {"comm": "", "cgroup": "", "threads": {}}
    try:
        tids = numbers(folder / "task")
    except OSError:
        return whole
    for tid in tids:
        task = folder / "task" / str(tid)
        # In this order: what is in a cgroup by then has got its CPUs by the time when the mask is read.
        cgroup, status = read_bytes(task / "cgroup")[0], read_bytes(task / "status")[0]
        # A first thread may end before the others: no change of its cgroup reaches it, and v1 shows it at the root.
        if status is None or cgroup is None or _DEAD.search(status):
            continue
        comm = shown((read_bytes(task / "comm")[0] or b"").strip(b"\n"))
        groups = "\n".join(shown(line) for line in cgroup.splitlines())
        if not whole["threads"]:
            whole |= {"comm": comm, "cgroup": groups}
        masks = {
            f"{key.decode()}_allowed_list": value.decode("utf-8", "replace") for key, value in _MASK.findall(status)
        }
        other = {key: value for key, value in (("comm", comm), ("cgroup", groups)) if value != whole[key]}
        whole["threads"][str(tid)] = masks | other
    return whole


def numbers(folder: Path) -> list[int]:
    """Return the entries of a folder that are numbers, ascending.

    :raises OSError: there is no such folder.
    """
    with os.scandir(folder) as entries:
        return sorted(int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit())


def kubelet_arguments(proc: Path) -> tuple[str, ...] | None:
    """Return the running kubelet's arguments without its own name; ``None``: none runs."""
    pid = kubelet_pid(proc)
    return None if pid is None else process_arguments(proc, pid)


def kubelet_pid(proc: Path) -> int | None:
    """Return the process that is the kubelet; ``None``: none runs.

    A process of a pod may call itself so: those below ``kubepods`` are skipped.
    """
    try:
        pids = numbers(proc)
    except OSError:
        return None
    return next((pid for pid in pids if is_kubelet(proc, pid)), None)


def process_named(proc: Path, name: str) -> int | None:
    """Return the first process of the node, and of no pod, that calls itself so; ``None``: there is none."""
    with contextlib.suppress(OSError):
        return next((pid for pid in numbers(proc) if _is_called(proc, pid, (name.encode(),))), None)
    return None


def is_kubelet(proc: Path, pid: int) -> bool:
    """Whether a process calls itself so, is none of a pod, and runs a node.

    One that only prints its version does not, and neither does one that has no words: it has ended, or is still taking
    its program's place (exec).
    """
    if not _is_called(proc, pid, (b"kubelet",)):
        return False
    words = small_file(f"{proc}/{pid}/cmdline")
    return words is None or (words != b"" and serves(arguments_of(words.decode("utf-8", "replace"))))


def embedding(proc: Path) -> str:
    """Return the name of a process in which a kubelet runs with the rest of Kubernetes; empty: there is none.

    Its arguments are not those of a kubelet, so nothing else is read of it.
    """
    with contextlib.suppress(OSError):
        found = next((pid for pid in numbers(proc) if _is_called(proc, pid, EMBEDDING)), None)
        if found is not None:
            return (small_file(f"{proc}/{found}/comm") or b"").strip().decode("utf-8", "replace")
    return ""


def _is_called(proc: Path, pid: int, names: tuple[bytes, ...]) -> bool:
    folder = f"{proc}/{pid}"
    if (small_file(f"{folder}/comm") or b"").strip() not in names:
        return False
    return not is_of_pods((small_file(f"{folder}/cgroup") or b"").decode("utf-8", "replace").replace("\n", "/"))


def process_arguments(proc: Path, pid: int) -> tuple[str, ...]:
    """Return a process's arguments without its own name; one that ends has none."""
    return arguments_of((small_file(f"{proc}/{pid}/cmdline") or b"").decode("utf-8", "replace"))


def start_ticks(proc: Path, pid: int) -> int | None:
    """Return when a process started, in clock ticks since the machine did; ``None``: nothing says it."""
    return ticks_of((small_file(f"{proc}/{pid}/stat") or b"").decode("utf-8", "replace"))


def started_s(proc: Path, pid: int) -> float | None:
    """Return when a process of this machine started, by the clock that dates files; ``None``: it is gone."""
    ticks = start_ticks(proc, pid)
    if ticks is None:
        return None
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + (ticks + 1) / os.sysconf("SC_CLK_TCK")


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
