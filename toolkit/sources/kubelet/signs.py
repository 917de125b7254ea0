"""Where a kubelet's node shows that it has changed: state files, the tree of pods, the containers' files of CPUs."""

from __future__ import annotations

from pathlib import Path

from toolkit import presence
from toolkit.model.node_reading import UNIFIED, CgroupHierarchies
from toolkit.model.runtimes import whole_of
from toolkit.sources.kubelet import live_files
from toolkit.sources.kubelet.pod_paths import place_of


class Signs:
    """Of one node. The paths are made anew where anything that they are made of is new: a node has a thousand."""

    def __init__(self) -> None:
        self._groups: CgroupHierarchies | None = None
        self._made_of: tuple[object, ...] | None = None
        self._found: tuple[Path, ...] = ()
        self.seen: tuple[Path, ...] = ()
        """As of the last reading."""

    def look(
        self, kubelet_root: Path, root: Path, hierarchies: live_files.Tops, groups: CgroupHierarchies | None
    ) -> None:
        """Make them. :param root: of the hierarchies. :param groups: those that were read."""
        tops = dict(hierarchies)
        where = kubelet_root, root, tops
        if self._made_of is None or self._groups != groups or self._made_of[0] != where:
            made_of = where, _names(groups)
            if made_of != self._made_of:
                self._made_of, self._found = made_of, _paths(kubelet_root, root, tops, made_of[1])
            self._groups = groups
        if len(self._found) > 1:
            self.seen = self._found
        else:
            self.seen = (*self._found, root, *(path for path in presence.below(root, "*") if presence.is_dir(path)))


_Name = tuple[str, str, bool]
"""Hierarchy, path, and whether the cgroup says its CPUs."""


def _names(groups: CgroupHierarchies | None) -> list[_Name]:
    return [
        (name, path, "cpuset.cpus" in files)
        for name, below in (groups or {}).items()
        if name in ("cpuset", UNIFIED)
        for path, files in below.items()
    ]


def _paths(kubelet_root: Path, root: Path, tops: dict[str, Path], names: list[_Name]) -> tuple[Path, ...]:
    found = [kubelet_root]
    for name, path, pinned in names:
        top, place = tops.get(name, root), place_of(whole_of(path))
        if place is None or not place.id:
            found.append(top / path.lstrip("/"))
        elif pinned:
            found.append(top / path.lstrip("/") / "cpuset.cpus")
    return tuple(found)
