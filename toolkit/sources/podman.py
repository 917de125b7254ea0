"""Claims of podman's containers: from what ``podman inspect`` printed, from podman itself, or from its socket.

podman needs no daemon, so without a file the program is asked. It says where each container's cgroup is.
Source: podman-inspect(1), podman-ps(1); containers/podman libpod/container_internal_linux.go (``getOCICgroupPath``).
"""

from __future__ import annotations

from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError
from toolkit.model.names import from_text
from toolkit.model.runtimes import CRUN, CRUN_INNER
from toolkit.sources import docker
from toolkit.sources.engine_inspect import Inspected, gather, inspected
from toolkit.sources.gathered import Gathering, hierarchy_of, is_there, slice_path
from toolkit.sources.kubelet.live_files import bytes_of
from toolkit.sources.kubelet.places import Places
from toolkit.sources.live_source import SourceReading
from toolkit.sources.programs import output_of

PROGRAM = "podman"


def read(where: Path | None, places: Places) -> SourceReading:
    """Return the claims of the containers that run.

    :param where: a file with what inspect printed, or a socket of ``podman system service``; ``None``: podman itself.
    :raises InputError: it cannot be read, or is no inspect output.
    """
    gathering = Gathering()
    if where is None:
        found = ask(gathering)
    elif presence.is_socket(where):
        found, _ = docker.ask(where, gathering)
    else:
        data = bytes_of(where, "a file with what `podman inspect` printed, or podman's socket")
        found = inspected(data, str(where))
    gather(found, _Located(places).place, gathering, places)
    return gathering.reading()


def ask(gathering: Gathering) -> tuple[Inspected, ...]:
    """Ask podman for the containers that run. One that ends meanwhile makes podman fail: then they are asked alone."""
    ids = output_of((PROGRAM, "ps", "--quiet", "--no-trunc")).decode("ascii", "replace").split()
    if not ids:
        return ()
    command = (PROGRAM, "inspect", "--type", "container")
    try:
        return inspected(output_of((*command, *ids)), "podman inspect")
    except InputError:
        found: list[Inspected] = []
        for name in ids:
            try:
                found += inspected(output_of((*command, name)), "podman inspect")
            except InputError as error:
                gathering.missing(name[:12], f"{error.found}: it ended meanwhile, or its limits are not known")
                gathering.complete = False  # which of the two the next reading shows
        return tuple(found)


class _Located:
    """Where containers' cgroups are."""

    def __init__(self, places: Places) -> None:
        self._hierarchy = hierarchy_of(places.root)

    def place(self, container: Inspected, gathering: Gathering) -> str:
        """Return the cgroup that has the container's limits.

        crun makes a cgroup ``container`` in the scope, and writes CPUs and quota into that one alone; podman names the
        scope (podman 4.3.1 with crun 1.8.1; with runc the scope has them).
        """
        path = from_text(container.cgroup.rstrip("/") if container.cgroup.startswith("/") else "")
        name = container.name or container.id[:12]
        if not path:
            path = from_text(usual(container))
            gathering.missing(name, f"podman does not report its cgroup; {path} follows from its cgroup manager")
        inner = f"{path}/{CRUN_INNER}"
        if is_there(self._hierarchy, inner):
            return inner
        if is_there(self._hierarchy, path) or container.runtime != CRUN or not path.endswith(".scope"):
            return path
        return inner


def usual(container: Inspected) -> str:
    """Return where podman's cgroup manager puts a container."""
    if container.manager == "cgroupfs":
        return f"/{(container.parent or 'libpod_parent').strip('/')}/libpod-{container.id}"
    parent = container.parent if container.parent.endswith(".slice") else "machine.slice"
    return f"{slice_path(Path(parent).name)}/libpod-{container.id}.scope"
