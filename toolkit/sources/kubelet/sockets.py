"""What the sockets of a live node answer, as files of a capture. What does not answer costs one line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.errors import InputError, PinproofError
from toolkit.sources.cri import Cri
from toolkit.sources.kubelet import kept
from toolkit.sources.kubelet.answers import Answers
from toolkit.sources.kubelet.json_parts import items, mapping, text
from toolkit.sources.pod_resources import PodResources

ALL_S = 60.0
"""For the statuses of all containers: 0.7 ms each on a node that is well."""
MAX_FAILURES = 3
MAX_CONTAINERS = 20_000


def runtime_files(
    endpoints: Sequence[str], deadline_s: float | None = None, answers: Answers | None = None
) -> tuple[dict[str, bytes], str]:
    """Ask the container runtime. :param endpoints: the first that exists is asked; none exists: the first is named.

    :param answers: of a node that is followed, for which nothing is written that nothing reads.
    :returns: ``node.json`` and ``containers.json``, and on one line what is missing (empty: nothing).
    """
    endpoint = next((one for one in endpoints if os.path.lexists(one)), endpoints[0])
    try:
        with Cri(endpoint, deadline_s) as cri:
            node: dict[str, Any] = {"version": cri.version(), "runtimeConfig": cri.config()}
            if answers is None:
                node |= {"containers": cri.containers(), "sandboxes": cri.sandboxes()}
                listed = items(node["containers"].get("containers"))
                node["status"], problem = _statuses([text(mapping(one).get("id")) for one in listed], cri.status)
            else:
                node |= answers.listed(cri)
                node["status"], problem = _statuses(answers.ids, partial(answers.status, cri))
    except PinproofError as error:
        others = endpoints[1:] if endpoint == endpoints[0] else ()
        return {}, f"{error}{''.join(f', nor {other}' for other in others)}"
    if answers is not None:
        return {"node.json": answers.document(node)}, problem
    node = kept.runtime(node)
    return {"node.json": _json(node), "containers.json": _json(kept.container_list(node))}, problem


def _statuses(ids: Sequence[str], status: Callable[[str], dict[str, Any] | None]) -> tuple[dict[str, Any], str]:
    """Ask for each container; one that is gone meanwhile is no problem, several that fail end the asking."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    end = time.monotonic() + ALL_S
    for container in ids[:MAX_CONTAINERS]:
        if len(problems) >= MAX_FAILURES or time.monotonic() > end:
            problems.append(f"more than {ALL_S:g} s for all")
            break
        try:
            answer = status(container)
        except InputError as error:
            problems.append(str(error))
            continue
        if answer is not None:
            found[container] = answer
    if len(ids) > MAX_CONTAINERS:
        problems.append(f"more than {MAX_CONTAINERS} containers")
    if not problems:
        return found, ""
    return found, f"the status of {len(found)} of {len(ids)} containers was read: {problems[0]}"


def pod_resources_files(
    socket: Path, deadline_s: float | None = None, answers: Answers | None = None
) -> tuple[dict[str, bytes], str]:
    """Ask the kubelet. :returns: ``podresources.json``, and on one line what is missing (empty: nothing)."""
    try:
        with PodResources(str(socket), deadline_s) as client:
            if answers is not None:
                return {"podresources.json": answers.pod_resources(client)}, ""
            said = {"List": client.pods(), "GetAllocatableResources": client.allocatable()}
    except PinproofError as error:
        return {}, str(error)
    return {"podresources.json": _json(kept.bounded(said))}, ""


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()
