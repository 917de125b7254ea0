"""Plain Pod manifests, as one gives them to ``kubectl apply``, in the order in which a kubelet is to admit them.

A file may hold several documents and lists (``kind: List``, ``kind: PodList``); a directory is read file by file in the
order of names. Source: Kubernetes API reference "Pod", "PodList"; kubectl's ``List``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from toolkit import presence
from toolkit.errors import InputError
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.serde import read_text
from toolkit.text.wording import kind_of
from toolkit.text.yaml_text import MAX_BYTES, parse_documents

EXPECTED = "Pod manifests (apiVersion: v1, kind: Pod)"
EXTENSIONS = (".yaml", ".yml", ".json")
MAX_FILES = 1024
Reader = Callable[[object, str], Pod]
"""Takes a document and how it is called; raises InputError."""
MAX_PODS = 4096


def load_pods(path: Path, read: Reader = read_pod) -> tuple[dict[str, Any], ...]:
    """Read the manifests of a file, or of the files of a directory (not those of folders in it).

    :param read: what refuses a manifest; one that keeps what the API refuses leaves that to its caller.
    :raises InputError: a file that cannot be read, a document that is no Pod, no Pod at all.
    """
    found: list[dict[str, Any]] = []
    for file in _files(path):
        found += parse_pods(read_text(file, EXPECTED, MAX_BYTES), str(file), read)
        if len(found) > MAX_PODS:
            raise InputError(str(path), f"more than {MAX_PODS} pods", "fewer")
    if not found:
        raise InputError(str(path), "no Pod", EXPECTED)
    return tuple(found)


def parse_pods(text: str, where: str, read: Reader = read_pod) -> list[dict[str, Any]]:
    """Read the manifests of one text; a document that is empty is skipped.

    :raises InputError: a document that is no Pod, or a Pod that the API would refuse.
    """
    documents = [document for document in parse_documents(text, where) if document is not None]
    several = len(documents) > 1
    found = []
    for number, document in enumerate(documents, 1):
        found += _pods_of(document, f"{where}: document {number}" if several else where, read)
    return found


def checked(pods: Iterable[Any], where: str, read: Reader = read_pod) -> list[dict[str, Any]]:
    """Return the members of a list of pods, each as a manifest: the API leaves their kind out.

    :raises InputError: one is no Pod.
    """
    found = []
    for number, pod in enumerate(pods):
        manifest = {"apiVersion": "v1", "kind": "Pod", **pod} if isinstance(pod, dict) else pod
        read(manifest, f"{where}.items[{number}]")
        found.append(manifest)
    return found


def _pods_of(document: Any, where: str, read: Reader) -> list[dict[str, Any]]:
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind in ("List", "PodList") and document.get("apiVersion") == "v1":
        items = document.get("items") or []
        if not isinstance(items, list):
            raise InputError(f"{where}.items", kind_of(items), "a list of Pods")
        return checked(items, where, read)
    read(document, where)
    return [document]


def _files(path: Path) -> list[Path]:
    if not presence.is_dir(path):
        return [path]
    try:
        names = [entry.name for entry in os.scandir(path) if entry.name.endswith(EXTENSIONS)]
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), EXPECTED) from None
    if len(names) > MAX_FILES:
        raise InputError(str(path), f"more than {MAX_FILES} files", "fewer")
    return [path / name for name in sorted(names, key=os.fsencode) if not name.startswith(".")]
