"""What a cgroup's path says of pods: the cgroup of all of them, the pod, the container; and a runtime's spelling of it.

Source: kubernetes ``pkg/kubelet/cm/cgroup_manager_linux.go``; docs/facts.md "Normal on a healthy node".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_POD_SLICE = re.compile(r"(?:.*-)?kubepods(?:-system)?(?:-(?:burstable|besteffort))?-pod(?P<uid>.+)\.slice")
_POD = re.compile(r"pod(?P<uid>[^/]+)")
ROOT = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")
"""How the cgroup of all pods is named. Others may be named so: :func:`root_of` says which it is."""
PARTITION = re.compile(r"system|(?:.*-)?kubepods-system\.slice")
"""Below it: pods of the system, with classes of their own (``systemPartition`` of v1.37, KEP-5894)."""
QOS = re.compile(r"(?:.*-)?(burstable|besteffort)(?:\.slice)?")
_SCOPE = re.compile(r"(?P<prefix>(?:cri-containerd|crio-conmon|crio|docker|libpod)-)?(?P<id>[^/]+?)(?:\.scope)?")
CONMON = "conmon-"
CONTAINER_ID = re.compile(r"[0-9a-f]{12,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a cgroup path says. :param root: the path of ``kubepods``. :param pod: the path of the pod."""

    root: str
    pod: str
    pod_uid: str
    id: str = ""
    prefix: str = ""
    partition: bool = False
    """Whether it is in the system's partition."""

    @property
    def monitors(self) -> bool:
        """Whether it is a container's monitor: CRI-O's carries its container's id."""
        return CONMON in self.prefix

    @property
    def key(self) -> str:
        """The id, apart from that of a monitor."""
        return f"{CONMON}{self.id}" if self.monitors else self.id


@lru_cache(4096)
def root_of(path: str) -> str | None:
    """Return the cgroup of all pods in which a path lies, or which it is; ``None``: it has nothing to do with pods."""
    parts = path.strip("/").split("/")
    named = [index for index, part in enumerate(parts) if ROOT.fullmatch(part)]
    if not named:
        return None
    # A cgroup above may have such a name, too. A node inside a container has its own root below that of its host.
    below = (_POD_SLICE, _POD, QOS, PARTITION)
    start = next(
        (i for i in named if any(name.fullmatch(part) for part in parts[i + 1 : i + 2] for name in below)), None
    )
    return "/" + "/".join(parts[: (named[-1] if start is None else start) + 1])


@lru_cache(4096)
def place_of(path: str) -> Place | None:
    """Return the pod, and the container if it is one's own cgroup; ``None``: neither, or below a container."""
    root = root_of(path)
    if root is None:
        return None
    parts = path.strip("/").split("/")
    start = root.count("/") - 1
    partition = PARTITION.fullmatch(parts[start + 1]) is not None if len(parts) > start + 1 else False
    for index in range(start + 1, min(len(parts), start + 3 + partition)):
        found = _POD_SLICE.fullmatch(parts[index])
        uid = found["uid"].replace("_", "-") if found else ""
        plain = None if found else _POD.fullmatch(parts[index])
        if not (uid := plain["uid"] if plain else uid):
            continue
        pod = "/" + "/".join(parts[: index + 1])
        if len(parts) == index + 1:
            return Place(root=root, pod=pod, pod_uid=uid, partition=partition)
        scope = _SCOPE.fullmatch(parts[index + 1])
        if len(parts) == index + 2 and scope:
            prefix = scope["prefix"] or ""
            return Place(root=root, pod=pod, pod_uid=uid, id=scope["id"], prefix=prefix, partition=partition)
        return None
    return None


def class_of(path: str) -> str:
    """Return the QoS class whose cgroup a path is; empty: none's. Guaranteed pods are in the cgroup of all pods."""
    above, _, name = path.rstrip("/").rpartition("/")
    found = QOS.fullmatch(name) if above and root_of(path) == above else None
    return found[1] if found else ""


def class_above(cgroup: str) -> str:
    """Return the QoS class of the pod in which a container's cgroup is; empty: it is Guaranteed, or in none."""
    return class_of("/".join(cgroup.split("/")[:-2]))


def pods_root(paths: Iterable[str]) -> str | None:
    """Return the cgroup of all pods on a node that has these cgroups.

    It is where pods are, if there is one: a driver that was used before may have left its root behind. A node without
    pods has its root all the same.
    """
    known = tuple(paths)
    found = next((place.root for place in map(place_of, known) if place is not None), None)
    bare = (root for root in map(root_of, known) if root is not None)
    return found or max(bare, key=lambda root: root.count("/"), default=None)


def expand(cgroups_path: str) -> str:
    """Turn a runtime's cgroup path into one below the cgroup root; systemd's ``slice:prefix:name`` is spelt out."""
    parts = cgroups_path.split(":")
    if len(parts) != 3 or not parts[0].endswith(".slice"):
        return cgroups_path
    stems = parts[0].removesuffix(".slice").split("-")
    slices = ["-".join(stems[: i + 1]) + ".slice" for i in range(len(stems))]
    return "/" + "/".join([*slices, f"{parts[1]}-{parts[2]}.scope" if parts[1] else f"{parts[2]}.scope"])


def is_of_pods(path: str) -> bool:
    """Whether a cgroup, by its path below the mount, is ``kubepods`` or below one."""
    return any(ROOT.fullmatch(part) for part in path.split("/"))
