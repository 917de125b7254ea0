"""Which pods have a folder at the kubelet: those that it has begun to start, before it waits for their volumes.

It removes a folder when the pod has ended and its volumes are unmounted.
Source: kubernetes ``pkg/kubelet/kubelet.go`` (``SyncPod``), ``pkg/kubelet/kubelet_volumes.go``
(``cleanupOrphanedPodDirs``).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from toolkit.text.names import shown

PODS = "pods"
"""Below the kubelet's root directory."""
FILE = "kubelet/pod_folders.json"
"""In a capture."""


def pod_folders(pods: Path) -> bytes:
    """Return the folders' names, which are UIDs, as a capture has them. Where ``pods`` is not there, no pod has one.

    :raises OSError: they cannot be listed.
    """
    try:
        with os.scandir(os.fsencode(pods)) as found:
            names = sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        names = []
    return json.dumps([shown(name) for name in names]).encode()
