"""Edits of a kubelet's state files: what the kubelet would have written, with its checksum."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from toolkit.allocation.checkpoint.cpu import cpu_hashed_text, parse_cpu_checkpoint
from toolkit.allocation.checkpoint.format import fnv32a
from toolkit.allocation.checkpoint.memory import memory_hashed_text, parse_memory_checkpoint

Edit = Callable[[str], str]


def changed(*path: str, to: object) -> Callable[[Any], None]:
    """Put a value in its place in a JSON document."""

    def edit(data: Any) -> None:
        for key in path[:-1]:
            data = next(iter(data.values())) if key == "*" else data[key]
        data[path[-1]] = to

    return edit


def cpu_state(edit: Callable[[Any], None]) -> Edit:
    """Change ``cpu_manager_state`` as a kubelet writes it: the checksum is that of the new content."""

    def rewritten(text: str) -> str:
        version = parse_cpu_checkpoint(text, 3 if "podEntries" in text else 2).version
        data = json.loads(text)
        edit(data)
        data["checksum"] = 0
        read = parse_cpu_checkpoint(json.dumps(data), version)
        hashed = cpu_hashed_text(read.policy_name, read.default, read.entries, read.pods if version == 3 else None)
        return json.dumps(data | {"checksum": fnv32a(hashed)})

    return rewritten


def memory_state(edit: Callable[[Any], None]) -> Edit:
    """Change ``memory_manager_state`` in the same way."""

    def rewritten(text: str) -> str:
        data = json.loads(text)
        edit(data)
        pod_level = "podEntries" in data
        read = parse_memory_checkpoint(json.dumps(data | {"checksum": 0}), 2 if pod_level else 1)
        hashed = memory_hashed_text(read.policy_name, read.state, pod_level=pod_level)
        return json.dumps(data | {"checksum": fnv32a(hashed)})

    return rewritten
