"""Claims of podman's containers and pods: from what ``podman inspect`` and ``podman pod inspect`` printed, from podman
itself, or from its socket.

podman needs no daemon, so without a file the program is asked. It says where each container's cgroup is; on its socket
its own API alone does (``/libpod/...``), and docker's, which it speaks as well, does not. Limits of a pod are in the
pod's own cgroup, and bind all its containers.
Source: podman-inspect(1), podman-ps(1), podman-pod-inspect(1), podman-update(1); containers/podman
libpod/container_internal_linux.go (``getOCICgroupPath``), libpod/define/pod_inspect.go, pkg/api/server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from toolkit import presence
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import Claim, SubjectKind, pod_claim_name
from toolkit.model.evidence import CgroupFiles
from toolkit.model.evidence.following import NOT_RECORDED
from toolkit.model.memory_units import whole_pages
from toolkit.model.runtimes import CRUN, CRUN_INNER
from toolkit.regular_file import bytes_of
from toolkit.sources import docker
from toolkit.sources import json_parts as part
from toolkit.sources.engine_inspect import (
    Inspected,
    cgroup_of,
    containers,
    gather,
    inspected,
    own_limits_of_parent,
)
from toolkit.sources.gathered import Gathering, amount, hierarchy_of, is_there, shares, slice_path, spelt
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import PROC, Places
from toolkit.sources.programs import output_of
from toolkit.text.names import from_text, printable

PROGRAM = "podman"
API = "v4.0.0"
"""The version of its API that is asked for where it does not say its own; podman 4 and 5 speak it."""
RECORDS_SINCE = 5
"""The first podman whose word follows ``podman update``."""
_Read = TypeVar("_Read")
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,6})?\S{0,40}", re.ASCII)
_RUNS = frozenset(("running", "degraded", "paused", ""))
_INSPECT = (PROGRAM, "inspect", "--type", "container")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod. :param cgroup: its own; empty: it has none, so none of its limits bind. :param fields: as inspected."""

    id: str
    name: str
    cgroup: str
    runs: bool
    fields: dict[str, Any]


def read(where: Path | None, places: Places) -> SourceReading:
    """Return the claims of the containers that run, and of their pods.

    :param where: a file with what inspect printed, or a socket of ``podman system service``; ``None``: podman itself.
    :raises InputError: it cannot be read, or is no inspect output.
    """
    gathering = Gathering()
    if where is None:
        found = ask(gathering)
        pods = ask_pods(found, gathering)
        version = _version_of_program
    elif presence.is_socket(where):
        found, pods, said = ask_socket(where, gathering)

        def version() -> str:
            return said
    else:
        data = bytes_of(where, "a file with what `podman inspect` printed, or podman's socket")
        found, pods = from_file(data, str(where))
        _without_pod(found, pods, gathering)

        def version() -> str:
            return ""

    located = _Located(places)
    gather(_in_pods(found, pods), located.place, gathering, places)
    for pod in pods:
        _add_pod(pod, found, gathering)
    _older_words(gathering, hierarchy_of(places.root), version)
    return gathering.reading()


def from_file(data: bytes, where: str) -> tuple[tuple[Inspected, ...], tuple[Pod, ...]]:
    """Read what ``podman inspect`` or ``podman pod inspect`` printed: a list, or one of them.

    :raises InputError: no JSON, cut off, or neither.
    """
    document = part.load(data, where)
    entries = document if isinstance(document, list) else [document]
    pods = [fields for entry in entries if _is_pod(fields := part.mapping(entry))]
    if not pods:
        return inspected(data, where), ()
    return containers([entry for entry in entries if not _is_pod(part.mapping(entry))], where), tuple(map(_pod, pods))


def _is_pod(fields: dict[str, Any]) -> bool:
    return bool(part.text(fields.get("Id"))) and "HostConfig" not in fields and "NumContainers" in fields


def _pod(fields: dict[str, Any]) -> Pod:
    path = part.text(fields.get("CgroupPath")).strip("/")
    return Pod(
        id=part.text(fields.get("Id")),
        name=part.text(fields.get("Name")) or part.text(fields.get("Id"))[:12],
        cgroup=from_text(f"/{path}") if path else "",
        runs=part.text(fields.get("State")).lower() in _RUNS,
        fields=fields,
    )


def ask(gathering: Gathering) -> tuple[Inspected, ...]:
    """Ask podman for the containers that run. One that ends meanwhile makes podman fail: then they are asked alone."""
    ids = output_of((PROGRAM, "ps", "--quiet", "--no-trunc")).decode("ascii", "replace").split()
    return _asked(_INSPECT, ids, lambda data: inspected(data, "podman inspect"), gathering)


def ask_pods(found: Iterable[Inspected], gathering: Gathering) -> tuple[Pod, ...]:
    """Ask podman for the pods of these containers."""
    ids = list(dict.fromkeys(container.pod for container in found if container.running and container.pod))
    command = (PROGRAM, "pod", "inspect")
    return _asked(command, ids, lambda data: from_file(data, "podman pod inspect")[1], gathering)


def _asked(
    command: tuple[str, ...], ids: list[str], read_them: Callable[[bytes], tuple[_Read, ...]], gathering: Gathering
) -> tuple[_Read, ...]:
    if not ids:
        return ()
    try:
        return read_them(output_of((*command, *ids)))
    except InputError:
        found: list[_Read] = []
        for name in ids:
            try:
                found += read_them(output_of((*command, name)))
            except InputError as error:
                gathering.missing(name[:12], f"{error.found}: it ended meanwhile, or its limits are not known")
                gathering.complete = False  # which of the two the next reading shows
        return tuple(found)


def ask_socket(socket: Path, gathering: Gathering) -> tuple[tuple[Inspected, ...], tuple[Pod, ...], str]:
    """Ask podman's service; returns its version, too. Where it has no API of its own, docker's must do."""
    from toolkit.sources import engine_socket  # with HTTP comes TLS: a twentieth of the start of whatever asks nothing

    def get(kind: str, name: str) -> Any:
        for prefix in prefixes:
            try:
                return engine_socket.get(socket, f"{prefix}/{kind}/{name}/json")
            except engine_socket.NotFoundError as error:
                missing = error
        raise missing

    ids = docker.listed(socket, gathering)
    version = _version_of_socket(socket)
    prefixes: tuple[str, ...] = (f"/v{version}/libpod" if version else f"/{API}/libpod", "/libpod", "")
    found: list[Inspected] = []
    for name in ids:
        try:
            found += containers(get("containers", name), f"{socket} container {name[:12]}")
        except engine_socket.NotFoundError:
            continue
    pods = []
    prefixes = prefixes[:-1]  # docker has no pods
    for name in dict.fromkeys(container.pod for container in found if container.running and container.pod):
        try:
            fields = part.mapping(get("pods", name))
        except InputError as error:
            gathering.missing(name[:12], f"{error.found}: limits of this pod are not known")
            continue
        pods.append(_pod(fields))
    return tuple(found), tuple(pods), version


def _version_of_socket(socket: Path) -> str:
    from toolkit.sources import engine_socket

    try:
        version = part.text(part.mapping(engine_socket.get(socket, "/version")).get("Version"))
    except InputError:
        return ""
    return version if _VERSION.fullmatch(version) and "/" not in version else ""


def _version_of_program() -> str:
    try:
        words = output_of((PROGRAM, "--version")).decode("ascii", "replace").split()
    except InputError:
        return ""
    return next((word for word in words if _VERSION.fullmatch(word)), "")


def _without_pod(found: tuple[Inspected, ...], pods: tuple[Pod, ...], gathering: Gathering) -> None:
    """Say which pods a file does not tell about."""
    known = {pod.id for pod in pods}
    for pod in dict.fromkeys(one.pod for one in found if one.running and one.pod):
        if pod not in known:
            gathering.missing(pod[:12], "limits of this pod are not in the file (`podman pod inspect` prints them)")


def _in_pods(found: tuple[Inspected, ...], pods: tuple[Pod, ...]) -> tuple[Inspected, ...]:
    """Give each container the sets of its pod's cgroup, in which it lies."""
    by_id = {pod.id: pod for pod in pods if pod.cgroup}
    return tuple(
        container
        if (pod := by_id.get(container.pod)) is None
        else replace(
            container,
            pod_cpus=part.text(pod.fields.get("cpuset_cpus")),
            pod_mems=part.text(pod.fields.get("cpuset_mems")),
        )
        for container in found
    )


def _add_pod(pod: Pod, found: tuple[Inspected, ...], gathering: Gathering) -> None:
    """Claim a pod's own limits. Where none of its containers is listed, its cgroup stands for all in it."""
    name = pod_claim_name(spelt(pod.name))
    fields = pod.fields
    keys = ("cpu_quota", "cpu_period", "cpu_shares", "memory_limit")
    number = {key: part.number(fields.get(key)) for key in keys}
    quota, period = gathering.quota(number["cpu_quota"], number["cpu_period"], name)
    inside = any(container.pod == pod.id and container.running for container in found)
    claim = Claim(
        name=name,
        cgroup=pod.cgroup,
        pod=pod.id[:12],
        container="",
        kind=SubjectKind.POD if inside else SubjectKind.CONTAINER,
        cpus=gathering.cpus(part.text(fields.get("cpuset_cpus")), name, "cpuset_cpus"),
        mems=gathering.cpus(part.text(fields.get("cpuset_mems")), name, "cpuset_mems"),
        quota_us=quota,
        period_us=period,
        shares=shares(number["cpu_shares"]),
        memory_bytes=amount(number["memory_limit"]),
        contended=False,
    )
    if not (inside or pod.runs):
        return
    if not _promises(claim):
        gathering.promises_nothing(claim.cgroup)
        return
    if not pod.cgroup:
        gathering.missing(name, "it has no cgroup of its own, so podman writes its limits nowhere: they are not judged")
        return
    gathering.add(claim, f"{name}@{pod.id[:12]}")


def _promises(claim: Claim) -> bool:
    values = (claim.cpus, claim.mems, claim.quota_us, claim.weight, claim.shares, claim.memory_bytes)
    return any(value is not None for value in values)


def _older_words(gathering: Gathering, hierarchy: cgroupfs.Hierarchy | None, version: Callable[[], str]) -> None:
    """Name those whose cgroup has something else than podman says: of an update, older ones know nothing."""
    differing = {}
    for claim in gathering.claims() if hierarchy is not None else ():
        try:
            differs = _differs(claim, cgroupfs.read_files(hierarchy, claim.cgroup, 0)) if hierarchy is not None else ""
        except (InputError, OSError):
            continue  # it has ended
        if differs:
            differing[claim.name] = differs
    said = version() if differing else ""
    major = _VERSION.fullmatch(said)
    if major is not None and int(major[1]) >= RECORDS_SINCE:
        return
    which = f"podman {printable(said)}" if said else f"podman before {RECORDS_SINCE}.0"
    for name, what in differing.items():
        gathering.missing(name, f"{which} {NOT_RECORDED}: {what}")


def _differs(claim: Claim, files: CgroupFiles) -> str:
    pairs = (
        ("cpuset.cpus", files.cpus, claim.cpus),
        ("cpuset.mems", files.mems, claim.mems),
        ("a quota in us of", files.quota_us, claim.quota_us),
        ("cpu.shares", files.shares, claim.shares),
    )
    found = [(what, has, says) for what, has, says in pairs if says is not None and has]
    wrong = [f"its cgroup has {what} {has}, podman says {says}" for what, has, says in found if has != says]
    memory = files.memory_max_bytes
    if claim.memory_bytes is not None and memory is not None and memory not in whole_pages(claim.memory_bytes):
        wrong.append(f"its cgroup has a limit of memory of {memory} bytes, podman says {claim.memory_bytes}")
    return wrong[0] if wrong else ""


class _Located:
    """Where containers' cgroups are."""

    def __init__(self, places: Places) -> None:
        self._hierarchy = hierarchy_of(places.root)
        self._proc = places.proc or places.below(PROC)

    def place(self, container: Inspected, gathering: Gathering) -> str:
        """Return the cgroup that has the container's limits.

        crun makes a cgroup ``container`` in the scope, and writes CPUs and quota into that one alone; podman names the
        scope (podman 4.3.1 with crun 1.8.1; with runc the scope has them).
        """
        path = from_text(container.cgroup.rstrip("/") if container.cgroup.startswith("/") else "")
        if container.parent and not container.pod:
            self._parent(container, gathering)
        if not path:
            path = self._unnamed(container, gathering)
        inner = f"{path}/{CRUN_INNER}"
        if is_there(self._hierarchy, inner):
            return inner
        if is_there(self._hierarchy, path) or container.runtime != CRUN or not path.endswith(".scope"):
            return path
        return inner

    def _unnamed(self, container: Inspected, gathering: Gathering) -> str:
        """Return the cgroup of its process, or where its manager puts it: where nothing knows which, the one there."""
        found = cgroup_of(container, self._proc)
        if found:
            return found.removesuffix(f"/{CRUN_INNER}")
        managers = (container.manager,) if container.manager else ("systemd", "cgroupfs")
        candidates = [from_text(usual(replace(container, manager=manager))) for manager in managers]
        path = next((one for one in candidates if is_there(self._hierarchy, one)), candidates[0])
        gathering.missing(container.shown, f"podman does not report its cgroup; {path} follows from its cgroup manager")
        return path

    def _parent(self, container: Inspected, gathering: Gathering) -> None:
        """A parent that was asked for (``--cgroup-parent``) may have limits."""
        parent = container.parent
        path = slice_path(Path(parent).name) if parent.endswith(".slice") else f"/{parent.strip('/')}"
        own_limits_of_parent(container, from_text(path), self._hierarchy, gathering)


def usual(container: Inspected) -> str:
    """Return where podman's cgroup manager puts a container."""
    if container.manager == "cgroupfs":
        return f"/{(container.parent or 'libpod_parent').strip('/')}/libpod-{container.id}"
    parent = container.parent if container.parent.endswith(".slice") else "machine.slice"
    return f"{slice_path(Path(parent).name)}/libpod-{container.id}.scope"
