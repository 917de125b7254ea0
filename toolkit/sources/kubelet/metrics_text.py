"""What a kubelet's metrics say about the kubelet itself. Source: component-base ``metrics/version`` (build_info)."""

from __future__ import annotations

import re

FILE = "metrics_managers.txt"
"""In a capture."""
_BUILD = re.compile(r'^kubernetes_build_info\{[^}\n]{0,500}?git_version="(v\d[0-9A-Za-z.+-]{0,60})"', re.MULTILINE)


def kubelet_version(metrics: str | None) -> str:
    """Return the kubelet's version; empty if the text does not say."""
    match = _BUILD.search(metrics or "")
    return match[1] if match else ""
