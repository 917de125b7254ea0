"""Where the cgroup hierarchies are mounted: v2, v1, or v1 controllers with a bare v2 hierarchy beside them ("hybrid").

Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cgroups.rst, Documentation/filesystems/proc.rst section 3.5
(mountinfo).
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from toolkit.errors import HostUnsupportedError
from toolkit.host.kernel_file import GONE, open_if_there

_V1_CONTROLLERS = frozenset(
    (
        *("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory"),
        *("misc", "net_cls", "net_prio", "perf_event", "pids", "rdma"),
    )
)


class Mode(StrEnum):
    """Which hierarchies carry the controllers that matter here (cpu and cpuset)."""

    V2 = "v2"
    HYBRID = "hybrid"
    """v1 controllers, and a cgroup2 mount that gives tasks an identity for BPF."""
    V1 = "v1"


V1_ONLY = "this host has cgroup v1 only, and BPF knows tasks by their cgroup v2 identity"
V2_REMEDY = "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or mount -t cgroup2 none /sys/fs/cgroup/unified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """The cgroup mounts of one host.

    :param root: where the host's ``/`` is seen.
    :param unified: mount point of cgroup2, ``None`` on a pure v1 host.
    :param legacy: v1 controller (or ``name=systemd`` for a hierarchy without one) and mount point, sorted by name.
    :param partial: those of the mount points that show only a part of their tree.
    """

    root: Path
    mode: Mode
    unified: Path | None
    legacy: tuple[tuple[str, Path], ...] = ()
    partial: frozenset[Path] = frozenset()

    def identity_root(self) -> Path:
        """Return the mount point of cgroup2, by whose ids BPF distinguishes cgroups.

        :raises HostUnsupportedError: a pure v1 host.
        """
        if self.unified is None:
            raise HostUnsupportedError(f"{V1_ONLY}: {V2_REMEDY}")
        return self.unified

    def controller_dir(self, name: str) -> Path:
        """Return the root directory of the hierarchy that carries the controller.

        :raises HostUnsupportedError: no hierarchy has it.
        """
        found = self.find_controller(name)
        if found is None:
            raise HostUnsupportedError(
                f"cgroup controller {name!r} is not available on this host: "
                "boot without cgroup_disable=, with its kernel option on"
            )
        return found

    def find_controller(self, name: str) -> Path | None:
        """Return what :meth:`controller_dir` does, or ``None``."""
        for controller, mount in self.legacy:
            if controller == name:
                return mount
        if self.unified is not None:
            offered = read_control(self.unified / "cgroup.controllers")
            if offered is not None and name in offered.split():
                return self.unified
        return None

    def is_v2(self, name: str) -> bool:
        """Return whether the controller lives in the unified hierarchy."""
        return all(controller != name for controller, _ in self.legacy)

    @property
    def memory_limit_file(self) -> str:
        """The name of the control file with the limit of a cgroup's memory."""
        return "memory.max" if self.is_v2("memory") else "memory.limit_in_bytes"


def detect(root: Path = Path("/")) -> Hierarchy:
    """Find the cgroup mounts in ``/proc/self/mountinfo`` below ``root``.

    :raises HostUnsupportedError: there is no cgroup mount at all.
    """
    text = read_control(root / "proc/self/mountinfo")
    if text is None:
        raise HostUnsupportedError(f"{root / 'proc/self/mountinfo'} cannot be read: mount /proc")
    unified: list[tuple[bool, Path]] = []
    legacy: dict[str, list[tuple[bool, Path]]] = {}
    for line in text.split("\n"):
        left, dash, right = line.partition(" - ")
        fields, super_fields = left.split(" "), right.split(" ")
        if not dash or len(fields) < 6 or len(super_fields) < 3:
            continue
        mount = root / unescape(fields[4]).lstrip("/")
        # A bind mount shows only part of the tree (its root is not "/"): the full one is better if there are two.
        candidate = (fields[3] != "/", mount)
        if super_fields[0] == "cgroup2":
            unified.append(candidate)
        elif super_fields[0] == "cgroup":
            for option in super_fields[2].split(","):
                if option in _V1_CONTROLLERS or option.startswith("name="):
                    legacy.setdefault(option, []).append(candidate)
    mounts = tuple(sorted((name, _best(found)) for name, found in legacy.items()))
    if not unified and not mounts:
        raise HostUnsupportedError("no cgroup file system is mounted: mount -t cgroup2 none /sys/fs/cgroup")
    if not unified:
        mode = Mode.V1
    elif "cpu" in legacy or "cpuset" in legacy:
        mode = Mode.HYBRID
    else:
        mode = Mode.V2
    chosen = [min(found, key=lambda candidate: candidate[0]) for found in (unified, *legacy.values()) if found]
    return Hierarchy(
        root=root,
        mode=mode,
        unified=_best(unified) if unified else None,
        legacy=mounts,
        partial=frozenset(mount for part, mount in chosen if part),
    )


def _best(found: list[tuple[bool, Path]]) -> Path:
    return min(found, key=lambda candidate: candidate[0])[1]


def unescape(text: str) -> str:
    r"""Return a path of mountinfo as Python's file functions want it: the kernel writes some bytes as ``\040``."""
    escaped = text.encode("utf-8", "surrogateescape")
    return os.fsdecode(re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes([int(match[1], 8)]), escaped))


def v1_number(controller: str, root: Path = Path("/")) -> int:
    """Return the number of the v1 hierarchy that carries a controller, or 0 where none does."""
    return _own(controller, root)[0]


def own_path(controller: str, root: Path = Path("/")) -> str:
    """Return our cgroup below the mount of a v1 controller, or of v2 (no name); the root's is empty."""
    return _own(controller, root)[1].lstrip("/")


def _own(controller: str, root: Path) -> tuple[int, str]:
    """Return the number of a hierarchy and our cgroup in it. Source: cgroups(7), /proc/[pid]/cgroup."""
    for line in (read_control(root / "proc/self/cgroup") or "").split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdigit() and controller in controllers.split(","):
            return int(number), path
    return 0, ""


def read_control(path: Path | str) -> str | None:
    r"""Read a whole control file; ``None`` if it does not exist (any more) or is not readable in this kind of cgroup.

    Bytes that are no UTF-8 are kept (``surrogateescape``). A name in it is spelt by
    :func:`toolkit.text.names.from_text` before it goes anywhere. Lines end with ``\n`` alone: ``splitlines`` would let
    a name begin lines of its own.
    """
    descriptor = open_if_there(path)
    if descriptor is None:
        return None
    try:
        chunks = []
        while chunk := os.read(descriptor, 1 << 16):
            chunks.append(chunk)
    except OSError as error:
        if error.errno in (*GONE, errno.EOPNOTSUPP, errno.EISDIR):
            return None
        raise
    finally:
        os.close(descriptor)
    return b"".join(chunks).decode("utf-8", "surrogateescape")
