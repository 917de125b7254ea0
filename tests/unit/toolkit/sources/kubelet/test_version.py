"""A running kubelet's version is asked of its program, which must be root's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolkit.host.namespaces import FIRST
from toolkit.sources.kubelet.files import process
from toolkit.sources.kubelet.files.process import version_of

PROC = Path("/proc")


@contextmanager
def running(program: Path) -> Iterator[int]:
    """A copy of ``sleep`` that runs. It has a version, and is no kubelet."""
    process = subprocess.Popen([program, "60"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's programs are run")
@pytest.mark.parametrize(("mode", "asked"), [(0o755, True), (0o775, False), (0o757, False)])
def test_a_program_that_others_may_write_is_not_run(tmp_path: Path, mode: int, asked: bool) -> None:
    """It would be run as root."""
    program = tmp_path / "kubelet"
    shutil.copy(shutil.which("sleep") or "", program)
    program.chmod(mode)
    file = program.stat()
    with running(program) as pid:
        assert version_of(pid, PROC) == ""
    assert ((file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns) in process._KNOWN) is asked


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's programs are run")
def test_from_a_container_the_nodes_own_kubelet_is_asked_by_another_mount_of_proc(tmp_path: Path) -> None:
    """It is in the mount namespace of the machine's first process, whose part this test plays; the container is not.

    Its /host/proc has the same processes. In a pid namespace that is not the machine's nothing is asked.
    """
    program = tmp_path / "kubelet"
    shutil.copy(shutil.which("sleep") or "", program)
    (tmp_path / "proc").mkdir()
    ask = (
        "import sys; from pathlib import Path; from toolkit.sources.kubelet.files import process; "
        "pid, process.INIT = map(int, sys.argv[1:3]); process.version_of(pid, Path(sys.argv[3])); "
        "print(len(process._KNOWN))"
    )
    script = 'mount -t proc proc "$1" && shift && exec "$@"'

    def asked(first: int) -> str:
        command = [sys.executable, "-c", ask, str(pid), str(first), str(tmp_path / "proc")]
        inside = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path / "proc"), *command]
        done = subprocess.run(inside, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[5])
        return done.stdout.strip()

    with running(program) as pid:
        machines = Path("/proc/self/ns/pid").stat().st_ino == FIRST["pid"]
        assert asked(os.getpid()) == ("1" if machines else "0")
        assert asked(1 << 22) == "0"


def test_a_process_of_another_tree_or_one_that_is_gone_has_none(tmp_path: Path) -> None:
    """Files that look like a process are not run."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1/exe").symlink_to("/bin/true")
    assert version_of(1, tmp_path) == ""
    assert version_of(1 << 22, PROC) == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"Kubernetes v1.36.2\n", b"v1.36.2"),
        (b"warning\nKubernetes v1.31.4+rke2r1\n", b"v1.31.4+rke2r1"),
        (b"sleep (GNU coreutils) 9.1\n", None),
        (b"Kubernetes v1.36.2 \x1b[2J\n", None),
    ],
)
def test_what_it_says(text: bytes, found: bytes | None) -> None:
    """One line; anything else is no version."""
    match = process._SAID.search(text)
    assert (None if match is None else match[1]) == found
