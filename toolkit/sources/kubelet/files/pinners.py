"""The files in which programs beside the kubelet say what they have pinned, as parts of a capture."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError
from toolkit.regular_file import read_bytes
from toolkit.sources import cluster_objects, crio, dra_cpu, nri
from toolkit.sources.places import Places
from toolkit.text.names import shown

PART = "pinned"
"""The part of a reading that is missing where a file of theirs cannot be used."""


def pinner_files(places: Places) -> tuple[dict[str, bytes], list[str]]:
    """Return these files, without what may be a secret, and a line for each that is there and cannot be used."""
    found: dict[str, bytes] = {}
    problems: list[str] = []

    def take(name: str, path: Path, kept: Callable[[bytes, str], bytes]) -> None:
        where = places.of_node(path)
        data, problem = read_bytes(places.target(path))
        try:
            if data is None:
                raise InputError(where, problem)
            found[name] = kept(data, where)
        except InputError as error:
            problems.append(str(error))

    if places.objects is not None:
        take(cluster_objects.FILE, places.objects, cluster_objects.kept)
    cache = places.below(nri.PLACE)
    if presence.exists(cache) or presence.is_hidden(cache):
        take(nri.FILE, cache, nri.kept)
    for folder in map(places.below, dra_cpu.PLACES):
        for name in _specifications(folder):
            take(f"{dra_cpu.FOLDER}{shown(os.fsencode(name))}", folder / name, dra_cpu.kept)
    configuration, problem = _crio(places)
    found |= {crio.FILE: configuration} if configuration is not None else {}
    return found, [*problems, *([problem] if problem else [])]


def _crio(places: Places) -> tuple[bytes | None, str]:
    """Return what of CRI-O's configuration is kept; nothing where there is none."""
    main, folder = map(places.below, crio.PLACES)
    files = []
    for path in (main, *(folder / name for name in _names(folder) if not name.startswith("."))):
        if path is main and not (presence.exists(path) or presence.is_hidden(path)):
            continue
        data, problem = read_bytes(places.target(path))
        if data is None:
            return None, f"{places.of_node(path)}: {problem}"
        files.append((places.of_node(path), data))
    try:
        return (crio.kept_configuration(files) if files else None), ""
    except InputError as error:
        return None, str(error)


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []


def _specifications(folder: Path) -> list[str]:
    own = [name for name in _names(folder) if name.startswith(dra_cpu.STARTS) and name.endswith(dra_cpu.ENDS)]
    return own[: dra_cpu.MAX_SPECIFICATIONS]
