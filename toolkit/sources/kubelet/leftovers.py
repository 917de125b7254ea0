"""Which tree of pods is the kubelet's, where another one is left of a kubelet with the other cgroup driver.

Such a kubelet's cgroups stay until the machine restarts: of all pods, of the QoS classes, and of static pods under the
very UIDs that they have again. Nothing is promised anything about them. Containers decide: where none is, no pod runs.
Source: kubernetes ``pkg/kubelet/cm/cgroup_manager_linux.go``, ``pod_container_manager_linux.go``
(``GetAllPodsFromCgroups`` looks below the driver's own names alone).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from toolkit.kubernetes.feature_gates import CGROUP_DRIVER_FROM_CRI
from toolkit.model.node_reading import MissingPart, NodeReading
from toolkit.sources.kubelet.pod_paths import place_of, pods_root, root_of
from toolkit.sources.kubelet.settings import Settings
from toolkit.sources.kubelet.subjects import Subject
from toolkit.text.names import printable, to_path

SYSTEMD = "systemd"
RUNNING = ("running", "")
"""A list without states is of what runs."""


def root_in_use(tree: Collection[str], subjects: Sequence[Subject], driver: str) -> str | None:
    """Return the cgroup of all pods: that of containers which run, else of others; else as the driver names it.

    :param tree: all cgroups of pods. :param driver: of :func:`driver_in_use`. Where nothing else is found it is not
        believed: a runtime may have given another one to the kubelet.
    """
    here = [one for one in subjects if not one.gone]
    running = [one for one in here if one.threads or (one.runtime is not None and one.runtime.state in RUNNING)]
    named = [path for path in tree if driver and _is_slice(path) == (driver == SYSTEMD)]
    orders = (map(_path, running), map(_path, here), named, tree, map(_path, subjects))
    return next((root for paths in orders if (root := pods_root(sorted(paths)))), None)


def driver_in_use(reading: NodeReading, known: Settings) -> str:
    """Return the kubelet's cgroup driver; empty: not known.

    The configuration's counts where the runtime names none (containerd before 2.0), and for kubelets before v1.31.
    Source: kubernetes ``pkg/kubelet/kubelet.go``, ``getCgroupDriverFromCRI``; KEP-4033.
    """
    if reading.runtime_driver and known.config.feature_gates[CGROUP_DRIVER_FROM_CRI]:
        return reading.runtime_driver
    return "" if known.problem else known.config.cgroup_driver


def leftovers(tree: Iterable[str], subjects: Iterable[Subject], root: str | None) -> tuple[MissingPart, ...]:
    """Name the other trees of pods, in which there is no container. :param root: the one in use."""
    used = {root_of(_path(one)) for one in subjects if not one.gone} - {None}
    if not used:
        return ()  # Which of the trees the next pod is in is not known for sure.
    others = {found for found in map(root_of, tree) if found is not None} - used
    reason = f"no container is in this tree of pods beside {printable(root or '')}: nothing is promised about it"
    return tuple(MissingPart(part=printable(one), reason=reason) for one in sorted(others))


def by_pod_cgroup(subjects: Iterable[Subject]) -> dict[str, list[Subject]]:
    """Return containers by the pod's cgroup in which they are, whatever else has the pod's UID in its name."""
    found: dict[str, list[Subject]] = {}
    for one in subjects:
        place = place_of(_path(one))
        if place is not None:
            found.setdefault(place.pod, []).append(one)
    return found


def _is_slice(path: str) -> bool:
    root = root_of(path)
    return root is not None and root.endswith(".slice")


def _path(subject: Subject) -> str:
    return to_path(subject.cgroup)
