"""Whether the memory cgroup that this process is in lets an observer live: the kernel kills without a word.

Source: Documentation/admin-guide/cgroup-v2.rst ("memory.max"), cgroup-v1/memory.rst ("memory.limit_in_bytes"); each
level limits what is below.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.cgroup_mounts import Hierarchy, own_path, read_control

NEED_BYTES = 96 << 20
"""What a watch of one cgroup is charged with at most, programs and maps in the kernel too: 99 MB on 2 CPUs, Linux 6.18.
With 94 MB it is killed, with 100 MB it lives (``tests/integration/test_watch_memory.py``). Claims and CPUs add to it.
So does compiling: where the kernel ends the compiler's process, the watch says so."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The least limit of memory at or above a cgroup. :param file: which file says so."""

    bytes: int
    file: Path


def least_limit(hierarchy: Hierarchy, root: Path = Path("/")) -> Limit | None:
    """Return the least limit that this process is under; ``None``: there is none, or no memory controller."""
    mount = hierarchy.find_controller("memory")
    if mount is None:
        return None
    own = own_path("" if hierarchy.is_v2("memory") else "memory", root)
    name = hierarchy.memory_limit_file
    folders = [mount / own, *(mount / above for above in Path(own).parents)]
    found = [
        Limit(int(text), folder / name)
        for folder in dict.fromkeys(folders)
        if (text := (read_control(folder / name) or "").strip()).isdigit()
    ]
    return min(found, key=lambda limit: limit.bytes, default=None)


def require_memory(hierarchy: Hierarchy, root: Path = Path("/")) -> None:
    """Refuse to begin where the kernel would kill an observer.

    :raises InputError: a memory cgroup above this process has less room than any watch needs.
    """
    limit = least_limit(hierarchy, root)
    if limit is not None and limit.bytes < NEED_BYTES:
        raise InputError(str(limit.file), f"{limit.bytes >> 20} MiB", f"at least {NEED_BYTES >> 20} MiB to observe in")
