"""Pods as users write them."""

from __future__ import annotations

from typing import Any


def manifest(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """A manifest with the containers."""
    body = {"containers": [{"name": f"c{i}", "image": "x", **c} for i, c in enumerate(containers)], **spec}
    if init:
        body["initContainers"] = init
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": body}


def res(cpu: object = None, memory: object = None, /, **limits: object) -> dict[str, Any]:
    """Requests, and limits where given."""
    requests = {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v is not None}
    return {"resources": {"requests": requests, **({"limits": limits} if limits else {})}}
