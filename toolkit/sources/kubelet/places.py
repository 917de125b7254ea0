"""Where a kubelet's node keeps what it says about itself, below any root.

Source: Kubernetes documentation "Local Files And Paths Used By The Kubelet"; kubelet reference, ``--root-dir``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolkit.host.sysfs import SysTree
from toolkit.model.names import from_path

CGROUP_ROOT, PROC, SYS, LOGS = "/sys/fs/cgroup", "/proc", "/sys", "/var/log/containers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Roots of the readers. ``None``: where it usually is, below ``root``.

    :param root: the node's ``/``; links below it stay inside, as after chroot(2).
    :param kubelet_root: ``None``: as the running kubelet's command line says.
    :param cri: the runtime's endpoint; ``None``: as the kubelet's configuration says.
    """

    root: Path = Path("/")
    kubelet_root: Path | None = None
    cgroup_root: Path | None = None
    proc: Path | None = None
    sys: Path | None = None
    logs: Path | None = None
    cri: str | None = None

    def below(self, path: str) -> Path:
        """Return where a path of the node is on this machine; a relative one starts at its root."""
        if str(self.root) == "/":
            return Path("/", path)
        return SysTree(self.root).resolved(path) or Path(self.root, path.lstrip("/"))

    def of_node(self, path: Path) -> str:
        """Return a path of this machine as the node has it, spelt for people."""
        root = self.root.absolute()
        return from_path(Path("/", path.relative_to(root)) if path.is_relative_to(root) else path)
