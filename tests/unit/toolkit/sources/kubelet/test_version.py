"""A running kubelet's version is asked of its program, which must be root's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
