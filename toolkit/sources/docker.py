"""Claims of docker's containers: from what ``docker inspect`` printed, or from the engine's socket.

docker does not say where a container's cgroup is: it is that of the container's first process, where that can be read;
else it follows from the cgroup driver. Source: dockerd(8), ``--cgroup-parent`` and ``native.cgroupdriver``; moby
daemon/oci_linux.go (``WithCgroups``): ``<slice>:docker:<id>`` or ``<parent>/<id>``.
"""

from __future__ import annotations

from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError
from toolkit.regular_file import bytes_of
from toolkit.sources import json_parts as part
from toolkit.sources.engine_inspect import (
    Inspected,
    cgroup_of,
    containers,
    gather,
    inspected,
    own_limits_of_parent,
)
from toolkit.sources.gathered import Gathering, hierarchy_of, is_there, slice_path
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import PROC, Places
from toolkit.text.names import from_text

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
    from toolkit.sources import engine_socket  # with HTTP comes TLS: a twentieth of the start of whatever asks nothing

    found: list[Inspected] = []
    for name in listed(socket, gathering):
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


def listed(socket: Path, gathering: Gathering) -> list[str]:
    """Return the ids of the containers that run, by docker's API, which podman speaks as well."""
    from toolkit.sources import engine_socket

    found = []
    for entry in part.items(engine_socket.get(socket, "/containers/json")):
        name = part.text(part.mapping(entry).get("Id"))
        if name.isascii() and name.isalnum():
            found.append(name)
        else:
            gathering.missing("containers", "the engine lists a container without an id: left out")
    return found


class _Located:
    """Where containers' cgroups are."""

    def __init__(self, places: Places, driver: str) -> None:
        self._places, self._driver = places, driver
        self._proc = places.proc or places.below(PROC)
        self._hierarchy = hierarchy_of(places.root)

    def place(self, container: Inspected, gathering: Gathering) -> str:
        self._parent(container, gathering)
        found = cgroup_of(container, self._proc)
        if found:
            return found
        drivers = (self._driver,) if self._driver else (_SYSTEMD, _CGROUPFS)
        candidates = [by_driver(container, driver) for driver in drivers]
        there = [cgroup for cgroup in candidates if is_there(self._hierarchy, cgroup)]
        return (there or candidates)[0]

    def _parent(self, container: Inspected, gathering: Gathering) -> None:
        """A parent that was asked for (``--cgroup-parent``, compose's ``cgroup_parent``) may have limits."""
        if container.parent:
            parents = (slice_path(container.parent), f"/{container.parent.strip('/')}")
            own_limits_of_parent(
                container, from_text(parents[not container.parent.endswith(".slice")]), self._hierarchy, gathering
            )


def by_driver(container: Inspected, driver: str) -> str:
    """Return where the driver puts a container."""
    if driver == _SYSTEMD:
        return from_text(f"{slice_path(container.parent or 'system.slice')}/docker-{container.id}.scope")
    return from_text(f"/{(container.parent or 'docker').strip('/')}/{container.id}")
