"""A private containerd with its CRI plugin (:mod:`tests.integration.cri_node`), 1.6 or later.

``PINPROOF_CONTAINERD=DIR`` runs the ``containerd``, ``ctr`` and ``containerd-shim-runc-v2`` of a directory.

Source: containerd docs/cri/config.md (version 2 is converted by containerd 2);
containerd 1.6 runtime/v2/shim/util_unix.go (``/run/containerd/s`` holds shims' sockets).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.integration.cri_node import DEADLINE_S, IMAGE, OCI, SYSTEMD, Node, Runtime, own_cgroup, remove_cgroups
from tests.integration.sleeper_image import PREBUILT, image

GIVEN = "PINPROOF_CONTAINERD"
SHIM_SOCKETS = Path("/run/containerd/s")
OWN = ("containerd", "ctr", "containerd-shim-runc-v2")


def program(name: str) -> Path | None:
    """Return a program of the directory that was given, else of the Debian package."""
    return programs.given(name, GIVEN, OWN) or programs.program(name, "containerd")


def need_containerd() -> None:
    """Skip where a part is missing."""
    compiler = () if PREBUILT.exists() else ("cc",)
    for name in (*OWN, OCI, *compiler):
        if program(name) is None:
            pytest.skip(f"{name} is not installed")
    pytest.importorskip("grpc", reason="grpcio is not installed (pip install 'pinproof[kubelet]')")


class Containerd(Node):
    """The running containerd."""

    def _command(self) -> tuple[list[str], dict[str, str]]:
        config = self.folder / "config.toml"
        config.write_text(_config(self.folder))
        server = program("containerd")
        assert server is not None
        return [str(server), "--config", str(config)], {"PATH": f"{server.parent}:{os.environ['PATH']}"}

    def cgroup_names(self, container: str) -> tuple[str, ...]:
        """Return how a container's cgroup may be named."""
        return container, f"cri-containerd-{container}.scope"

    def load_image(self) -> None:
        """Import the image."""
        file = self.folder / "image.tar"
        file.write_bytes(image(self.folder).archive(IMAGE))
        self.load(file, DEADLINE_S)

    def load(self, file: Path, timeout_s: float) -> str:
        """Import an archive of an image. :returns: what containerd says of it."""
        ctr = [str(program("ctr")), "--address", str(self.socket), "--namespace", "k8s.io"]
        words = ["images", "import", "--snapshotter", "native"]
        # containerd 2 would let its transfer service unpack, which is configured for another snapshotter.
        told = subprocess.run([*ctr, *words, "--help"], capture_output=True, text=True, check=False).stdout
        command = [*ctr, *words, *(["--local"] if "--local" in told else []), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextlib.contextmanager
def containerd(folder: Path) -> Iterator[Node]:
    """Run a private containerd; at the end no process, mount, cgroup or socket of it is left."""
    top = own_cgroup("containerd")
    made = [path for path in (SHIM_SOCKETS, SHIM_SOCKETS.parent) if not path.exists()]
    (folder / "logs").mkdir(parents=True)
    try:
        with Containerd(folder, top) as node:
            node.load_image()
            yield node
    finally:
        remove_cgroups(top)
        for path in made:
            with contextlib.suppress(OSError):  # Another node uses it by now.
                path.rmdir()


CONTAINERD = Runtime("containerd", need_containerd, containerd)


def _config(folder: Path) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    off = ", ".join(f'"io.containerd.{name}"' for name in ("internal.v1.opt", "snapshotter.v1.btrfs"))
    return f"""version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [{off}]
[grpc]
address = "{folder}/c.sock"
[plugins."io.containerd.nri.v1.nri"]
disable = true
[{cri}]
sandbox_image = "{IMAGE}"
disable_apparmor = true
restrict_oom_score_adj = true
[{cri}.cni]
bin_dir = "{folder}/cni"
conf_dir = "{folder}/cni"
[{cri}.containerd]
snapshotter = "native"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
BinaryName = "{program(OCI)}"
SystemdCgroup = {str(SYSTEMD).lower()}
Root = "{folder}/runc"
"""
