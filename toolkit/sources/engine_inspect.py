"""What ``podman inspect`` and ``docker inspect`` print about containers, and the claim that it makes. Pure.

Both print a JSON list of the same shape; where they differ, both words are read. Only what was asked for is a promise:
zero means that it was not. Source: Docker Engine API v1.41, ``ContainerInspect`` and ``HostConfig``;
podman-inspect(1); containers/podman libpod/define/container_inspect.go; docker-run(1), "Runtime constraints".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import NO_QUOTA, Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.runtimes import CRUN_INNER
from toolkit.regular_file import read_bytes
from toolkit.sources import json_parts as part
from toolkit.sources.gathered import Gathering, amount, hierarchy_of, is_there, shares
from toolkit.sources.places import PROC, Places
from toolkit.text.names import from_text

EXPECTED = "the JSON list that inspect prints"
MAX_CONTAINERS = 10_000
_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """One container. :param cgroup: as the engine itself says it; empty: it does not.

    :param manager: ``systemd``, ``cgroupfs``, or empty. :param runtime: ``crun``, ``runc``, or empty.
    :param config: its ``HostConfig``. :param pod_cpus, pod_mems: sets of its pod, which hold where it has none itself.
    """

    id: str
    name: str
    pid: int
    running: bool
    pod: str
    cgroup: str
    parent: str
    manager: str
    runtime: str
    config: dict[str, Any]
    pod_cpus: str = ""
    pod_mems: str = ""

    @property
    def shown(self) -> str:
        """Its name, or else the beginning of its id."""
        return self.name or self.id[:12]


def inspected(data: bytes, where: str) -> tuple[Inspected, ...]:
    """Read what inspect printed.

    :raises InputError: no JSON, cut off, or no list of containers.
    """
    return containers(part.load(data, where), where)


def containers(document: Any, where: str) -> tuple[Inspected, ...]:
    """Read inspect's list, or one container of the API."""
    entries = document if isinstance(document, list) else [document]
    if len(entries) > MAX_CONTAINERS:
        raise InputError(where, f"{len(entries)} containers", f"at most {MAX_CONTAINERS}")
    found = []
    for number, entry in enumerate(entries):
        fields = part.mapping(entry)
        if not part.text(fields.get("Id")) or not isinstance(fields.get("HostConfig"), dict):
            raise InputError(f"{where}[{number}]", "no container (Id and HostConfig)", EXPECTED)
        found.append(_one(fields))
    return tuple(found)


def _one(fields: dict[str, Any]) -> Inspected:
    state, config = part.mapping(fields.get("State")), part.mapping(fields["HostConfig"])
    return Inspected(
        id=part.text(fields["Id"]),
        name=part.text(fields.get("Name")).removeprefix("/"),
        pid=part.number(state.get("Pid")) or 0,
        running=state.get("Running") is True or state.get("Paused") is True,
        pod=part.text(fields.get("Pod")),
        cgroup=part.text(state.get("CgroupPath")),
        parent=part.text(config.get("CgroupParent")),
        manager=part.text(config.get("CgroupManager")),
        runtime=part.text(fields.get("OCIRuntime")),
        config=config,
    )


def gather(
    found: tuple[Inspected, ...],
    place: Callable[[Inspected, Gathering], str],
    gathering: Gathering,
    places: Places,
) -> None:
    """Make the claims of the containers that run. One whose cgroup is not found although it has not ended is left out
    of what is watched, and named.

    :param place: the cgroup of a container.
    """
    hierarchy = hierarchy_of(places.root)
    for container in found:
        if not container.running:
            continue
        name = container.shown
        cgroup = place(container, gathering)
        lost = not is_there(hierarchy, cgroup) and not _has_ended(container, places)
        why = f"its cgroup was not found: {cgroup} is where it should be" if lost else ""
        gathering.add(_claim(container, name, cgroup, gathering), f"{name}@{container.id[:12]}", why)


def _has_ended(container: Inspected, places: Places) -> bool:
    """Return whether its first process is gone, where one is named and processes can be seen."""
    proc = places.proc or places.below(PROC)
    return container.pid > 0 and presence.exists(proc / "self") and not presence.exists(proc / str(container.pid))


def _claim(container: Inspected, name: str, cgroup: str, gathering: Gathering) -> Claim:
    config = container.config
    number = {key: part.number(config.get(key)) for key in ("CpuQuota", "CpuPeriod", "NanoCpus", "CpuShares", "Memory")}
    period = number["CpuPeriod"]
    quota = number["CpuQuota"]
    if not quota and number["NanoCpus"]:
        # docker keeps `--cpus` as it was given; the quota is that of its default period.
        period = 100_000
        quota = number["NanoCpus"] * period // _NANO
    quota, period = gathering.quota(quota, period, name)
    return Claim(
        name=name,
        cgroup=cgroup,
        pod=container.pod[:12],
        container=name,
        cpus=gathering.cpus(part.text(config.get("CpusetCpus")) or container.pod_cpus, name, "CpusetCpus"),
        mems=gathering.cpus(part.text(config.get("CpusetMems")) or container.pod_mems, name, "CpusetMems"),
        quota_us=quota,
        period_us=period,
        shares=shares(number["CpuShares"]),
        memory_bytes=amount(number["Memory"]),
        contended=False,
    )


def of_process(text: str) -> str:
    """Return the cgroup of a process from its ``/proc/PID/cgroup``: that of v2, else of the cpuset controller."""
    lines = [line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2]
    for wanted in ("", "cpuset"):
        for number, controllers, path in lines:
            if (number == "0" if not wanted else wanted in controllers.split(",")) and path not in ("", "/"):
                return path
    return ""


def cgroup_of(container: Inspected, proc: Path) -> str:
    """Return the cgroup of a container's first process, if that is this container's: process ids are used again."""
    if container.pid <= 0:
        return ""
    data, _ = read_bytes(proc / str(container.pid) / "cgroup")
    path = of_process((data or b"").decode("utf-8", "surrogateescape"))
    head, here, rest = path.partition(container.id)
    if not here:
        return ""
    # What lies below the container's own cgroup was made in it (by a systemd in it), but for crun's.
    scope, *inside = rest.split("/")
    inner = f"/{CRUN_INNER}" if inside[:1] == [CRUN_INNER] else ""
    return from_text(f"{head}{here}{scope}{inner}")


def own_limits_of_parent(
    container: Inspected, parent: str, hierarchy: cgroupfs.Hierarchy | None, gathering: Gathering
) -> None:
    """Say that the cgroup which a container was put into has limits: its engine knows none of them."""
    if hierarchy is None or not is_there(hierarchy, parent):
        return
    try:
        files = cgroupfs.read_files(hierarchy, parent, 0)
    except (InputError, OSError):
        return
    narrower = files.cpus_effective is not None and files.cpus_effective != hierarchy_cpus(hierarchy)
    has = (
        ("a quota", files.quota_us not in (None, NO_QUOTA)),
        ("CPUs", narrower),
        ("a limit of memory", files.memory_max_bytes not in (None, NO_LIMIT)),
    )
    found = [what for what, is_so in has if is_so]
    if found:
        why = f"{parent}, into which it was put, has {' and '.join(found)} of its own: not judged here"
        gathering.missing(container.shown, why)


def hierarchy_cpus(hierarchy: cgroupfs.Hierarchy) -> CpuSet | None:
    """Return the CPUs of the root cgroup."""
    return cgroupfs.read_files(hierarchy, "/", 0).cpus_effective
