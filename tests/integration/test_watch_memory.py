"""A memory cgroup that is too small for a watch is named before it begins; in one that is just enough it lives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.probe_lab import cgroup
from toolkit.host import cgroupfs
from toolkit.host.own_memory import NEED_BYTES

pytestmark = [pytest.mark.integration, pytest.mark.skipif(os.geteuid() != 0, reason="eBPF needs root")]


@pytest.fixture
def room() -> Iterator[Path]:
    """Make a memory cgroup."""
    hierarchy = cgroupfs.detect()
    mount = hierarchy.find_controller("memory")
    if mount is None:
        pytest.skip("no memory controller")
    folder = mount / f"pinproof-room-{os.getpid()}"
    folder.mkdir()
    yield folder / hierarchy.memory_limit_file
    folder.rmdir()


def watched(limit: Path, bytes_: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Watch for half a second in a cgroup with this limit."""
    limit.write_text(str(bytes_))
    folder.mkdir(exist_ok=True)
    with cgroup(f"pinproof-watched-{os.getpid()}") as path:
        claims = folder / "claims.yaml"
        claims.write_text(
            f'apiVersion: pinproof/v1\nkind: Claims\nclaims:\n- {{name: one, cgroup: {path}, cpus: "0"}}\n'
        )
        words = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--duration", "0.5"]
        join = f'echo $$ >{limit.parent}/cgroup.procs && exec "$@"'
        command = ["sh", "-c", join, "sh", *words, "--output", str(folder / "runs")]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def test_too_small_a_room_is_named(room: Path, tmp_path: Path) -> None:
    """One line with the file, and exit code 2; the kernel would kill it."""
    done = watched(room, 80_000_000, tmp_path)

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(room) in line
    assert f"at least {NEED_BYTES >> 20} MiB" in line


def test_the_least_room_is_enough(room: Path, tmp_path: Path) -> None:
    """A watch of one cgroup ends by itself where the limit is what is asked for."""
    watched(room, 1 << 40, tmp_path / "first")  # from then on the programs are kept, and nothing needs the compiler
    done = watched(room, NEED_BYTES, tmp_path)

    assert done.returncode in (0, 3), done.stderr
    assert list((tmp_path / "runs").iterdir())
