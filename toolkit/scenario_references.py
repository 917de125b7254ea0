"""The files that a scenario file names: a kubelet's configuration and Pod manifests, as they lie on a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.sources.kubelet.configuration import load_configuration, merge
from toolkit.sources.pod_files import load_pods


def kubelet_settings(name: str, settings: Mapping[str, Any], folder: Path | None, where: str) -> dict[str, Any]:
    """Return the settings of the file, with those of the scenario over them (a mapping merges, ``null`` takes back).

    :param name: of the file, relative to the scenario's folder; empty: there is none.
    :raises InputError: it is no kubelet configuration, or the scenario lies in no folder.
    """
    if not name:
        return dict(settings)
    return merge(load_configuration(_place(name, folder, f"{where}: kubeletConfig")).fields, settings)


def all_pods(
    names: Iterable[str], pods: Iterable[dict[str, Any]], folder: Path | None, where: str
) -> tuple[dict[str, Any], ...]:
    """Return the pods of the files, then those of the scenario itself.

    :raises InputError: a file holds something else than pods, or the scenario lies in no folder.
    """
    files = [_place(name, folder, f"{where}: podFiles") for name in names]
    return (*(pod for file in files for pod in load_pods(file)), *pods)


def _place(name: str, folder: Path | None, where: str) -> Path:
    if folder is None:
        raise InputError(where, repr(name)[:80], "a scenario that is a file of its own")
    try:
        place = folder / name
        place.exists()
    except (OSError, ValueError) as error:
        raise InputError(where, repr(name)[:80], f"a path ({error})") from None
    return place
