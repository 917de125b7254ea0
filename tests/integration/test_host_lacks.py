"""Hosts that cannot run the main job, made for real: one line that says what is missing, exit code 4, nothing left."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.apply_support import sandboxes
from tests.integration.probe_lab import cgroup

pytestmark = pytest.mark.integration

PINPROOF = (sys.executable, "-m", "toolkit")
CLAIMS = """apiVersion: pinproof/v1
kind: Claims
claims:
- {name: all, cgroup: PLACE, cpus: "0"}
"""
NO_BPF = ("setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--inh-caps=-bpf,-sys_admin,-perfmon")
NO_HEADERS = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'for d in /lib/modules /usr/src; do mount -t tmpfs none $d; done; exec "$@"',
    "sh",
)


@pytest.fixture
def place() -> Iterator[str]:
    """An empty cgroup to watch."""
    with cgroup(f"pinproof-lacks-{os.getpid()}") as path:
        yield path


def pinproof(tmp_path: Path, place: str, host: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command on such a host."""
    if shutil.which(host[0]) is None:
        pytest.skip(f"{host[0]} is not installed")
    claims = tmp_path / "claims.yaml"
    claims.write_text(CLAIMS.replace("PLACE", place))
    verbs = {
        "watch": ("watch", "--claims", str(claims), "--duration", "1"),
        "conformance": ("conformance", "--select", "quota-050-over"),
    }
    return subprocess.run(
        [*host, *PINPROOF, *verbs[words[0]], *words[1:], "--output", str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("verb", ["watch", "conformance"])
@pytest.mark.parametrize(
    ("host", "said"), [(NO_BPF, "no bpf here: the kernel says: Operation not permitted"), (NO_HEADERS, "headers")]
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, place: str, host: tuple[str, ...], said: str, verb: str
) -> None:
    """Neither a traceback nor a compiler's pages, and what to do."""
    if host is NO_HEADERS and list(Path("/sys/kernel").glob("kheaders*")):
        pytest.skip("this kernel carries its headers itself")
    before = sandboxes()
    done = pinproof(tmp_path, place, host, verb)

    assert (done.returncode, done.stdout) == (4, "")
    assert said in done.stderr
    assert done.stderr.startswith("pinproof: ")
    assert done.stderr.count("\n") == 1
    assert sandboxes() <= before
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path, place: str) -> None:
    """Before anything is watched."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = pinproof(tmp_path, place, ("env",), "watch", "--metrics-port", str(taken.getsockname()[1]))

    assert done.returncode == 2
    assert "in use" in done.stderr
    assert done.stderr.count("\n") == 1
