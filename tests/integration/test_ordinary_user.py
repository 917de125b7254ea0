"""Verbs that need no root, called without it: where tracefs is mounted, which systemd does with mode 0700.

In a mount namespace of its own, in which a real tracefs is mounted, as user 65534; nothing of the machine changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

NOBODY = 65534
PROJECT = Path(__file__).resolve().parents[2]
RUN = PROJECT / "tests/data/runs/three-classes"
SCRIPT = (
    "mount -t tracefs tracefs /sys/kernel/tracing && chmod 0700 /sys/kernel/tracing && "
    f'exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "$@"'
)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root"),
]


def called(*arguments: str | Path, code: int) -> str:
    """Call a verb as an ordinary user; return all that it prints."""
    command = [sys.executable, "-m", "toolkit", *map(str, arguments)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=PROJECT,
        env=os.environ | {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    assert "Traceback" not in output, output
    return output


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A kubelet's node whose folders are root's alone."""
    root = tmp_path / "node"
    state = root / "var/lib/kubelet"
    state.mkdir(parents=True)
    (state / "cpu_manager_state").write_text('{"policyName":"none","defaultCpuSet":"","checksum":1}')
    (state / "config.yaml").write_text("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
    for folder in ("proc", "sys/fs/cgroup", "run/containerd", "etc/kubernetes"):
        (root / folder).mkdir(parents=True)
    for folder in (state, root / "run", root / "run/containerd", root / "etc/kubernetes"):
        folder.chmod(0o700)
    # A temporary directory of pytest is root's alone as well.
    for folder in (root, *root.parents):
        if folder.is_relative_to(tmp_path.parents[1]):
            folder.chmod(0o755)
    return root


def test_doctor_prints_the_table() -> None:
    """It may not look below tracefs, and is not root: both are rows of the table, and 4 says that `run` cannot work."""
    table = called("doctor", code=4)
    rows = {line.split()[0]: line for line in table.splitlines() if line and not line.startswith(" ")}
    assert rows["root"].split()[:2] == ["root", "no"]
    assert rows["own-cgroups"].split()[:2] == ["own-cgroups", "NO"]
    assert "only root may look" in rows["tracefs"]
    assert "run it with sudo, or with CAP_BPF and CAP_PERFMON" in " ".join(table.split())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("topology",), 0, "NUMA"),
        (("rules",), 0, "cpuset-containment"),
        (("explain", "noise"), 0, "noise"),
        (("judge", RUN), 0, "Verdicts:"),
        (("report", RUN), 0, "Verdicts:"),
        (("compare", RUN, RUN), 0, "no regression"),
        (("plan", PROJECT / "validators/scenarios/burst-create.yaml"), 0, "CPUs"),
        (("judge", "/sys/kernel/tracing/events"), 2, "Permission denied"),
        (("report", "/sys/kernel/tracing/a/b"), 2, "Permission denied"),
        (("compare", "/sys/kernel/tracing/a", RUN), 2, "Permission denied"),
        (("simulate", "/sys/kernel/tracing/a"), 2, "Permission denied"),
        (("plan", "/sys/kernel/tracing/a"), 2, "Permission denied"),
        (("plan", "--capture", "/sys/kernel/tracing/a"), 2, "Permission denied"),
        (("judge", "--capture", "/sys/kernel/tracing/a"), 2, "Permission denied"),
        (("capture", "/sys/kernel/tracing/a"), 2, "cannot be written"),
        (("watch", "--claims", "/sys/kernel/tracing/a"), 2, "Permission denied"),
        (("watch", "--kubelet", "--bpf", "require"), 4, "run it with sudo, or with CAP_BPF"),
        (("conformance",), 4, "run it with sudo, or with CAP_BPF"),
        (("conformance", "--list"), 0, "judges"),
        (("cleanup",), 0, "nothing to clean up"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_every_verb_answers(arguments: tuple[str | Path, ...], code: int, says: str) -> None:
    """With its answer, or with one line and the code that is meant for it."""
    assert says in called(*arguments, code=code)


def test_no_kubelet_to_watch() -> None:
    """Of a root of its own: a kubelet may run on this machine, and without BPF its node is watched, too."""
    with tempfile.TemporaryDirectory() as bare:
        (Path(bare) / "proc").mkdir()
        (Path(bare) / "sys/fs/cgroup").mkdir(parents=True)
        Path(bare).chmod(0o755)
        assert "expected a kubelet's node" in called("watch", "--kubelet", "--root", bare, code=2)


@pytest.mark.parametrize("verb", [("claims", "--kubelet"), ("capture", "{out}")], ids=lambda verb: verb[0])
def test_a_node_that_is_root_s_alone(verb: tuple[str, ...], node: Path) -> None:
    """Not "no state file": there is one, and this user may not read it."""
    # Not below pytest's own folder, which is root's alone.
    with tempfile.TemporaryDirectory() as out:
        Path(out).chmod(0o777)
        said = called(*(part.format(out=f"{out}/capture.tar.gz") for part in verb), "--root", node, code=2)
    assert "Permission denied" in said
    assert "run it with sudo" in said
    assert len(said.splitlines()) == 1
