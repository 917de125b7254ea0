"""The sources beside the kubelet, by the word of their option. To add one: its module, a row here,
and its name among the causes that move a promise (``validators/queries/view.py``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolkit.sources import docker, podman, slurm, systemd
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source. :param prints: the command whose output is a file for it."""

    name: str
    title: str
    prints: str
    read: Callable[[Path | None, Places], SourceReading]


SOURCES = (
    Source(name="podman", title="podman's containers", prints="podman inspect", read=podman.read),
    Source(name="docker", title="docker's containers", prints="docker inspect", read=docker.read),
    Source(name="systemd", title="systemd's units", prints="systemctl show", read=systemd.read),
    Source(name=slurm.NAME, title="Slurm's jobs on this node", prints="scontrol show job -d", read=slurm.read),
)
BY_NAME = {source.name: source for source in SOURCES}
