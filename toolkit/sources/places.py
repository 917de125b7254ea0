"""Where a kubelet's node keeps what it says about itself, below any root.

Source: Kubernetes documentation "Local Files And Paths Used By The Kubelet"; kubelet reference, ``--root-dir``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolkit.host.sysfs import SysTree
from toolkit.sources.cri import ENDPOINTS
from toolkit.text.names import from_path

_LONGEST = 4096
"""Bytes of a path that a kernel takes. Source: limits.h, ``PATH_MAX``."""
CGROUP_ROOT, PROC, SYS, LOGS = "/sys/fs/cgroup", "/proc", "/sys", "/var/log/containers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Roots of the readers. ``None``: where it usually is, below ``root``.

    :param root: the node's ``/``; links below it stay inside, as after chroot(2).
    :param kubelet_root: ``None``: as the running kubelet's command line says.
    :param objects: a file with objects of the cluster: :mod:`toolkit.sources.cluster_objects`.
    :param cri: the runtime's endpoint; ``None``: as the kubelet's configuration says.
    :param metrics: the kubelet's metrics, an address or a file; ``None``: they are not read.
    :param version: the kubelet's, where neither it nor its metrics say one.
    :param pods: the kubelet's list of pods, an address or a file; ``None``: its read-only port, where it has one.
    :param token, authority: files, for both, see :func:`toolkit.sources.kubelet.files.endpoint.answer_of`.
    """

    root: Path = Path("/")
    kubelet_root: Path | None = None
    cgroup_root: Path | None = None
    proc: Path | None = None
    sys: Path | None = None
    logs: Path | None = None
    objects: Path | None = None
    cri: str | None = None
    metrics: str | None = None
    version: str | None = None
    pods: str | None = None
    token: Path | None = None
    authority: Path | None = None

    def below(self, path: str) -> Path:
        """Return where a path of the node leads on this machine; a relative one starts at its root.

        What is not there is named all the same. No link is left in what is returned below another root than ``/``.
        """
        if str(self.root) == "/":
            return Path("/", path)
        # A path that is longer than any may be is too long for whatever opens it.
        root, inside = self.root.absolute(), path[: _LONGEST + 1].strip("/")
        with suppress(ValueError):  # A name that no file has: nothing is there.
            if os.path.realpath(root / inside) == f"{os.path.realpath(root)}/{inside}":
                return root / inside  # No link is on the way, and nothing that leads up.
        # The longest beginning that exists, without links; what is behind it is only named.
        parts = inside.split("/")
        tree, place, rest = SysTree(self.root), root, parts
        for count in range(len(parts), 0, -1):
            found = tree.resolved("/".join(parts[:count]))
            if found is not None:
                place, rest = found, parts[count:]
                break
        for name in rest:
            place /= name
            if os.path.islink(place):  # noqa: PTH114 a name too long is none
                # It would lead out of this root, to a file of this machine.
                place = place.with_name(f"{name} (a link to nothing)")
        return place

    def runtime_endpoints(self, configured: str) -> list[str]:
        """Return where the container runtime may answer. :param configured: by the kubelet's configuration."""
        if self.cri is not None:
            return [self.cri]
        own = configured.removeprefix("unix:")
        own = own[2:] if own.startswith("///") else own
        # The first of the usual ones is what a kubelet has that was given none.
        usual = ENDPOINTS if own in ("", ENDPOINTS[0]) else (own,)
        return [str(self.below(path)) if path.startswith("/") else path for path in usual]

    def target(self, path: Path) -> Path:
        """Return a path of this machine without its links, which stay below the root."""
        root = self.root.absolute()
        if str(root) == "/" or not path.is_relative_to(root):
            return Path(os.path.realpath(path))
        return self.below(str(path.relative_to(root)))

    def of_node(self, path: Path) -> str:
        """Return a path of this machine as the node has it, spelt for people."""
        root = self.root.absolute()
        return from_path(Path("/", path.relative_to(root)) if path.is_relative_to(root) else path)
