"""What the sockets of a live node answer, as files of a capture. What does not answer costs one line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import InputError, PinproofError
from toolkit.sources.cri import Cri
from toolkit.sources.grpc_socket import DEADLINE_S
from toolkit.sources.kubelet import kept
from toolkit.sources.kubelet.json_parts import items, mapping, text
from toolkit.sources.pod_resources import PodResources

ALL_S = 60.0
"""For the statuses of all containers: 0.7 ms each on a node that is well."""
MAX_FAILURES = 3
MAX_CONTAINERS = 20_000


def runtime_files(
    endpoints: Sequence[str], deadline_s: float = DEADLINE_S, known: Mapping[str, Any] | None = None
) -> tuple[dict[str, bytes], str]:
    """Ask the container runtime. :param endpoints: the first that exists is asked; none exists: the first is named.

    :param known: by id: statuses of before, which are not asked for again; not ``None``: of a node that is followed,
        for which nothing is written that nobody reads.
    :returns: ``node.json`` and ``containers.json``, and on one line what is missing (empty: nothing).
    """
    endpoint = next((one for one in endpoints if os.path.lexists(one)), endpoints[0])
    try:
        with Cri(endpoint, deadline_s) as cri:
            node: dict[str, Any] = {
                "version": cri.version(),
                "runtimeConfig": cri.config(),
                "containers": cri.containers(),
                "sandboxes": cri.sandboxes(),
            }
            node["status"], problem = _statuses(cri, node["containers"], known or {})
    except PinproofError as error:
        others = endpoints[1:] if endpoint == endpoints[0] else ()
        return {}, f"{error}{''.join(f', nor {other}' for other in others)}"
    node = kept.runtime(node)
    if known is not None:
        return {"node.json": json.dumps(node).encode()}, problem
    return {"node.json": _json(node), "containers.json": _json(kept.container_list(node))}, problem


def _statuses(cri: Cri, listed: dict[str, Any], known: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Ask for each container; one that is gone meanwhile is no problem, several that fail end the asking."""
    found: dict[str, Any] = {}
    ids = [text(mapping(entry).get("id")) for entry in items(listed.get("containers"))]
    problems: list[str] = []
    end = time.monotonic() + ALL_S
    for container in ids[:MAX_CONTAINERS]:
        if len(problems) >= MAX_FAILURES or time.monotonic() > end:
            problems.append(f"more than {ALL_S:g} s for all")
            break
        try:
            status = known[container] if container in known else cri.status(container)
        except InputError as error:
            problems.append(str(error))
            continue
        if status is not None:
            found[container] = status
    if len(ids) > MAX_CONTAINERS:
        problems.append(f"more than {MAX_CONTAINERS} containers")
    if not problems:
        return found, ""
    return found, f"the status of {len(found)} of {len(ids)} containers was read: {problems[0]}"


def pod_resources_files(socket: Path, deadline_s: float = DEADLINE_S) -> tuple[dict[str, bytes], str]:
    """Ask the kubelet. :returns: ``podresources.json``, and on one line what is missing (empty: nothing)."""
    try:
        with PodResources(str(socket), deadline_s) as client:
            answers = {"List": client.pods(), "GetAllocatableResources": client.allocatable()}
    except PinproofError as error:
        return {}, str(error)
    return {"podresources.json": _json(kept.bounded(answers))}, ""


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()
