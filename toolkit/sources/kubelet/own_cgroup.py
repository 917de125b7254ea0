"""What of the cgroups of a node is one container's own: the one that has its limits, and whether it is there at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.model.node_reading import RuntimeContainer, ThreadReading
from toolkit.model.runtimes import CRUN_INNER

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
