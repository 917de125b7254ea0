"""Claims of docker's containers: from what ``docker inspect`` printed, or from the engine's socket.

docker does not say where a container's cgroup is: it is that of the container's first process, where that can be read;
else it follows from the cgroup driver. Source: dockerd(8), ``--cgroup-parent`` and ``native.cgroupdriver``; moby
daemon/oci_linux.go (``WithCgroups``): ``<slice>:docker:<id>`` or ``<parent>/<id>``.
"""

from __future__ import annotations

from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError
from toolkit.model.names import from_text
from toolkit.model.runtimes import CRUN_INNER
from toolkit.sources.engine_inspect import Inspected, containers, gather, inspected, of_process
from toolkit.sources.gathered import Gathering, hierarchy_of, is_there, slice_path
from toolkit.sources.kubelet import json_parts as part
from toolkit.sources.kubelet.live_files import bytes_of, read_bytes
from toolkit.sources.kubelet.places import PROC, Places
from toolkit.sources.live_source import SourceReading

SOCKETS = ("/run/docker.sock", "/var/run/docker.sock")
_SYSTEMD, _CGROUPFS = "systemd", "cgroupfs"


def read(where: Path | None, places: Places) -> SourceReading:
    """Return the claims of the containers that run.

    :param where: a file with what inspect printed, or a socket; ``None``: docker's own socket.
    :raises InputError: it cannot be read, or is no inspect output.
    """
    gathering = Gathering()
    path = where or next(
        (place for place in map(places.below, SOCKETS) if presence.is_socket(place)), places.below(SOCKETS[0])
    )
    if where is None or presence.is_socket(path):
        found, driver = ask(path, gathering)
    else:
        data = bytes_of(path, "a file with what `docker inspect` printed, or docker's socket")
        found, driver = inspected(data, str(path)), ""
    located = _Located(places, driver)
    gather(found, located.place, gathering, places)
    return gathering.reading()


def ask(socket: Path, gathering: Gathering) -> tuple[tuple[Inspected, ...], str]:
    """Ask the engine for its containers and its cgroup driver; one that goes meanwhile is gone."""
    from toolkit.sources import engine_socket  # with HTTP comes TLS: a twentieth of the start of whoever asks nobody

    found: list[Inspected] = []
    for entry in part.items(engine_socket.get(socket, "/containers/json")):
        name = part.text(part.mapping(entry).get("Id"))
        if not (name.isascii() and name.isalnum()):
            gathering.missing("containers", "the engine lists a container without an id: left out")
            continue
        request = f"/containers/{name}/json"
        try:
            found += containers(engine_socket.get(socket, request), f"{socket} {request}")
        except engine_socket.NotFoundError:
            continue
    try:
        driver = part.text(part.mapping(engine_socket.get(socket, "/info")).get("CgroupDriver"))
    except InputError as error:
        gathering.missing("info", f"{error.found}: the cgroup driver is not known")
        driver = ""
    return tuple(found), driver


class _Located:
    """Where containers' cgroups are."""

    def __init__(self, places: Places, driver: str) -> None:
        self._places, self._driver = places, driver
        self._proc = places.proc or places.below(PROC)
        self._hierarchy = hierarchy_of(places.root)

    def place(self, container: Inspected, gathering: Gathering) -> str:
        found = self._of_process(container)
        if found:
            return found
        drivers = (self._driver,) if self._driver else (_SYSTEMD, _CGROUPFS)
        candidates = [by_driver(container, driver) for driver in drivers]
        there = [cgroup for cgroup in candidates if is_there(self._hierarchy, cgroup)]
        return (there or candidates)[0]

    def _of_process(self, container: Inspected) -> str:
        """Return the cgroup of its first process, if that is this container's: numbers are given again."""
        if container.pid <= 0:
            return ""
        data, _ = read_bytes(self._proc / str(container.pid) / "cgroup")
        path = of_process((data or b"").decode("utf-8", "surrogateescape"))
        head, here, rest = path.partition(container.id)
        if not here:
            return ""
        # What lies below the container's own cgroup was made in it (by a systemd in it), but for crun's.
        scope, *inside = rest.split("/")
        inner = f"/{CRUN_INNER}" if inside[:1] == [CRUN_INNER] else ""
        return from_text(f"{head}{here}{scope}{inner}")


def by_driver(container: Inspected, driver: str) -> str:
    """Return where the driver puts a container."""
    if driver == _SYSTEMD:
        return from_text(f"{slice_path(container.parent or 'system.slice')}/docker-{container.id}.scope")
    return from_text(f"/{(container.parent or 'docker').strip('/')}/{container.id}")
