"""A private CRI-O (:mod:`tests.integration.cri_node`).

Debian 12 has none: it is installed, or ``PINPROOF_CRIO=DIR`` names a directory with ``crio``, ``pinns`` and ``conmon``.

Source: cri-o docs/crio.conf.5.md; containers-registries.conf(5), containers-policy.json(5), containers-storage.conf(5).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.integration.cri_node import IMAGE, OCI, SYSTEMD, Node, Runtime, own_cgroup, remove_cgroups, removed_again
from tests.integration.image_registry import registry
from tests.integration.sleeper_image import PREBUILT, image

GIVEN = "PINPROOF_CRIO"
OWN = ("crio", "pinns", "conmon")
IMAGES = "runtime.v1.ImageService"
OCI_NAME = Path(OCI).name
CACHE = Path("/var/lib/containers/cache")
"""Where root's pulls note which registry has which layer; no setting names another place."""
RESTRAINED = """#!{python}
import json, os, sys
from pathlib import Path
if "create" in sys.argv:
    file = Path(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    found = json.loads(file.read_text())
    least = int(Path("/proc/self/oom_score_adj").read_text())
    found["process"]["oomScoreAdj"] = max(least, found["process"].get("oomScoreAdj", least))
    found["linux"]["resources"].pop("hugepageLimits", None)
    file.write_text(json.dumps(found))
os.execv("{runtime}", ["{runtime}", *sys.argv[1:]])
"""
"""For a machine that is a container itself: there root may not lower the score, and hugetlb may not be mounted although
the kernel has it. containerd is told the one (``restrict_oom_score_adj``) and asks for no such limit, CRI-O does both.
"""


def program(name: str) -> Path | None:
    """Return a program of the directory that was given, else an installed one."""
    return programs.given(name, GIVEN, OWN) or programs.program(name, name)


def need_crio() -> None:
    """Skip where a part is missing."""
    compiler = () if PREBUILT.exists() else ("cc",)
    for name in (*OWN, OCI, *compiler):
        if program(name) is None:
            pytest.skip(f"{name} is not installed ({GIVEN}=DIR names a directory with {', '.join(OWN)})")
    pytest.importorskip("grpc", reason="grpcio is not installed (pip install 'pinproof[kubelet]')")


class Crio(Node):
    """The running CRI-O. :param address: of the registry with the image."""

    def __init__(self, folder: Path, top: str, address: str) -> None:
        self._address = address
        super().__init__(folder, top)

    def _command(self) -> tuple[list[str], dict[str, str]]:
        folder = self.folder
        texts = {
            "crio.conf": _config(folder),
            "storage.conf": '[storage]\ndriver = "vfs"\n',
            "policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}',
            "registries.conf": f'[[registry]]\nprefix = "{IMAGE.partition("/")[0]}"\nlocation = "{self._address}"\n'
            "insecure = true\n",
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
        server, monitor = program("crio"), program("conmon")
        assert server is not None
        assert monitor is not None
        environment = {
            "PATH": f"{monitor.parent}:{os.environ['PATH']}",
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }
        # Directories of drop-ins: those of the machine are not for this one.
        command = [str(server), "--config", str(folder / "crio.conf"), "--config-dir", ""]
        command += ["--registries-conf", str(folder / "registries.conf"), "--registries-conf-dir", str(folder / "none")]
        return command, environment

    def cgroup_names(self, container: str) -> tuple[str, ...]:
        """Return how a container's cgroup may be named."""
        return f"crio-{container}", f"crio-{container}.scope"

    def load_image(self) -> None:
        """Pull the image."""
        self.call("PullImage", "PullImageRequest", service=IMAGES, image={"image": IMAGE})


@contextlib.contextmanager
def crio(folder: Path) -> Iterator[Node]:
    """Run a private CRI-O; at the end no process, mount or cgroup of it is left."""
    top = own_cgroup("crio")
    (folder / "logs").mkdir(parents=True)
    try:
        with removed_again(CACHE), registry(image(folder)) as address, Crio(folder, top, address) as node:
            node.load_image()
            yield node
    finally:
        remove_cgroups(top)


CRIO = Runtime("crio", need_crio, crio)


def _oci(folder: Path) -> Path | None:
    """Return the program that makes containers: that of this machine, or one that asks for no more than it may."""
    runtime = program(OCI)
    if subprocess.run(["sh", "-c", "echo -998 2>/dev/null >/proc/self/oom_score_adj"], check=False).returncode == 0:
        return runtime
    own = folder / OCI_NAME
    own.write_text(RESTRAINED.format(python=sys.executable, runtime=runtime))
    own.chmod(0o755)
    return own


def _config(folder: Path) -> str:
    # Monitors in the pods' own cgroups, where a driver puts them anywhere: beside what is claimed.
    driver, monitors = ("systemd", "pod") if SYSTEMD else ("cgroupfs", "")
    return f"""[crio]
root = "{folder}/root"
runroot = "{folder}/run"
storage_driver = "vfs"
log_dir = "{folder}/logs"
version_file = "{folder}/version"
version_file_persist = "{folder}/version-of-storage"
clean_shutdown_file = "{folder}/clean"
[crio.api]
listen = "{folder}/c.sock"
stream_port = "0"
[crio.runtime]
default_runtime = "{OCI_NAME}"
cgroup_manager = "{driver}"
pinns_path = "{program("pinns")}"
namespaces_dir = "{folder}/ns"
container_exits_dir = "{folder}/exits"
container_attach_socket_dir = "{folder}/attach"
hooks_dir = ["{folder}/hooks"]
cdi_spec_dirs = ["{folder}/cdi"]
apparmor_profile = "unconfined"
irqbalance_config_restore_file = "disable"
disable_hostport_mapping = true
[crio.runtime.runtimes.{OCI_NAME}]
runtime_path = "{_oci(folder)}"
runtime_root = "{folder}/containers"
monitor_path = "{program("conmon")}"
monitor_cgroup = "{monitors}"
monitor_env = ["PATH={os.environ["PATH"]}"]
[crio.image]
pause_image = "{IMAGE}"
pause_command = "/sleeper"
signature_policy = "{folder}/policy.json"
signature_policy_dir = "{folder}/policies"
[crio.network]
network_dir = "{folder}/cni"
plugin_dirs = ["{folder}/cni"]
[crio.nri]
enable_nri = false
"""
