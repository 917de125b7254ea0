"""The JSON parts of a capture: each has the form that its format asks for, or it is missing, with its reason.

A part that is empty is believed only where the node does not show that it cannot be: a list without containers, beside
cgroups of containers, would promise nothing, and so find nothing wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import InputError
from toolkit.model.claims import AssignedDevice
from toolkit.model.node_reading import (
    CgroupHierarchies,
    MissingPart,
    PodResourcesContainer,
    RuntimeContainer,
    ThreadReading,
)
from toolkit.sources.kubelet import runtime_json
from toolkit.sources.kubelet.json_parts import entries, load, mapping, number, text, texts
from toolkit.sources.kubelet.pod_folders import FILE as POD_FOLDERS
from toolkit.sources.kubelet.pod_paths import place_of
from toolkit.text.names import to_path
from toolkit.text.wording import kind_of

FORMS = {
    "node.json": ("containers", (dict,)),
    "containers.json": ("containers", (dict,)),
    "pods.json": ("pods", (dict,)),
    "podresources.json": ("pod_resources", (dict,)),
    "threads.json": ("threads", (dict, list)),
    "cgroup.json": ("cgroups", (dict,)),
    "times.json": ("times", (dict,)),
    POD_FOLDERS: ("pod_folders", (list,)),
    "capture.json": ("log_names", (dict,)),
}
"""By file: the part that is missing without it, and what its JSON is."""
SYSFS = "/sys/devices/system/"
NONE_LISTED = "the kubelet lists none, while the node runs some"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocatable:
    """The answer of ``GetAllocatableResources``; ``None``: it was not asked for, or the kubelet has none."""

    cpus: tuple[int, ...] | None = None
    devices: tuple[AssignedDevice, ...] | None = None


class Parts:
    """Of one capture. :attr:`missing` has the parts that were there and cannot be used."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self.missing: list[MissingPart] = []

    def load(self, name: str) -> Any:
        """Return a file's JSON; ``None``: it is not there, or is missing with its reason."""
        if name not in self._files:
            return None
        part, forms = FORMS[name]
        try:
            found = load(self._files[name], name)
        except InputError as error:
            self.miss(part, str(error))
            return None
        if not isinstance(found, forms):
            self.miss(part, f"{name}: {kind_of(found)}; expected {' or '.join(kind_of(one()) for one in forms)}")
            return None
        return found

    def miss(self, part: str, reason: str) -> None:
        """Say that a part cannot be used."""
        self.missing.append(MissingPart(part=part, reason=reason))

    def sysfs(self) -> str | None:
        """Return the machine's lines; a text without one says nothing of it."""
        name = "sysfs.txt"
        found = self._files[name].decode("utf-8", "replace") if name in self._files else None
        if found is not None and not any(line.startswith(SYSFS) for line in found.splitlines()):
            self.miss("sysfs", f"{name}: no line of the machine in it; expected lines {SYSFS}...: VALUE")
            return None
        return found

    def runtime(
        self, node: object, containers: object, groups: CgroupHierarchies | None
    ) -> tuple[RuntimeContainer, ...] | None:
        """Return what the runtime lists, by ``node.json``, else by ``containers.json``."""
        found, problem = (None, "") if node is None else runtime_json.checked_cri(node, groups)
        if found is None and containers is not None:
            found, problem = runtime_json.checked_list(containers, groups)
        if problem:
            self.miss("containers", problem)
        return found

    def pods(
        self, answer: object, runtime: Sequence[RuntimeContainer] | None, groups: CgroupHierarchies | None
    ) -> tuple[dict[str, object], ...] | None:
        """Return the kubelet's pods. One that has just started lists none, and has not let go of those that run."""
        if answer is None:
            return None
        try:
            found = tuple(entries(mapping(answer).get("items"), "pods.json: items"))
        except InputError as error:
            self.miss("pods", str(error))
            return None
        if not found and _runs_pods(runtime, groups):
            self.miss("pods", NONE_LISTED)
            return None
        return found

    def pod_folders(self) -> tuple[str, ...] | None:
        """Return the UIDs of pods that have a folder."""
        found = self.load(POD_FOLDERS)
        return None if found is None else tuple(map(text, found))

    def pod_resources(
        self, answers: object, node: object, runtime: Sequence[RuntimeContainer] | None
    ) -> tuple[tuple[PodResourcesContainer, ...] | None, Allocatable]:
        """Return what the kubelet's socket lists, and what can be allocated. It lists all that runs."""
        said = {"List": mapping(node).get("podresources"), "GetAllocatableResources": mapping(node).get("allocatable")}
        said = said if answers is None else mapping(answers)
        listed, whole = said.get("List"), said.get("GetAllocatableResources")
        try:
            found = None if listed is None else runtime_json.pod_resources(listed)
            free = Allocatable()
            if whole is not None:
                free = Allocatable(cpus=runtime_json.cpu_ids(whole), devices=runtime_json.devices(whole))
        except InputError as error:
            self.miss("pod_resources", str(error))
            return None, Allocatable()
        runs = any(one.pod_uid and not one.sandbox and one.state in ("running", "") for one in runtime or ())
        if found == () and runs:
            self.miss("pod_resources", NONE_LISTED)
            found = None
        return found, free

    def cgroups(self, tree: object) -> CgroupHierarchies | None:
        """Return the control files of ``cgroup.json``."""
        found = {
            text(hierarchy): {"/" + to_path(text(path)).strip("/"): texts(own) for path, own in mapping(groups).items()}
            for hierarchy, groups in mapping(tree).items()
        }
        if not any(found.values()):
            self.miss("cgroups", "cgroup.json: no cgroup in it")
            return None
        return found

    def cpusets(self, groups: CgroupHierarchies | None) -> None:
        """Say that no cgroup of a container has a cpuset, where there are such cgroups."""
        files = list(_of_containers(groups))
        if files and not any(name.startswith("cpuset.") for own in files for name in own):
            self.miss("cgroups", "no cpuset of a container in it")

    def threads(
        self, found: Iterable[ThreadReading], groups: CgroupHierarchies | None
    ) -> tuple[ThreadReading, ...] | None:
        """Return the threads; a cgroup with processes in it has some."""
        threads = tuple(found)
        if not threads and any(own.get("cgroup.procs", "").strip() for own in _of_containers(groups)):
            self.miss("threads", "threads.json: no thread in it, while cgroups of containers have processes")
            return None
        return threads

    def times(self, data: object) -> dict[str, float]:
        """Return when each part was read."""
        found = mapping(data)
        wrong = [name for name, value in found.items() if number(value) is None and not isinstance(value, float)]
        if wrong:
            self.miss("times", f"times.json: {wrong[0]} is {kind_of(found[wrong[0]])}; expected a number")
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def _of_containers(groups: CgroupHierarchies | None) -> Iterable[dict[str, str]]:
    for tree in (groups or {}).values():
        for path, files in tree.items():
            place = place_of(path)
            if place is not None and place.id:
                yield files


def _runs_pods(runtime: Sequence[RuntimeContainer] | None, groups: CgroupHierarchies | None) -> bool:
    """Whether the node has pods by the runtime's word; where that is not known, by its cgroups."""
    if runtime is not None:
        return any(one.pod_uid for one in runtime)
    return any(True for _ in _of_containers(groups))
