"""Hosts that cannot run the main job, made for real: one line that says what is missing, exit code 4, nothing left."""

from __future__ import annotations

import importlib.util
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


def hidden(*folders: str) -> tuple[str, ...]:
    """A host on which these folders are empty."""
    script = f'for d in {" ".join(folders)}; do mount -t tmpfs none $d; done; exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh")


BCC = importlib.util.find_spec("bcc")
assert BCC is not None
NO_BCC = hidden(str(Path(BCC.origin or "").parent))
NO_BTF = hidden("/sys/kernel/btf")
NO_HEADERS = hidden("/lib/modules", "/usr/src")


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
    ("host", "said"),
    [
        (NO_BPF, "no bpf here: the kernel says: Operation not permitted"),
        (NO_BCC, "python3-bpfcc"),
        (NO_BTF, "CONFIG_DEBUG_INFO_BTF"),
    ],
    ids=["bpf", "bcc", "btf"],
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, place: str, host: tuple[str, ...], said: str, verb: str
) -> None:
    """Neither a traceback nor a compiler's pages, and what to do."""
    before = sandboxes()
    done = pinproof(tmp_path, place, host, verb)

    assert (done.returncode, done.stdout) == (4, "")
    assert said in done.stderr
    assert done.stderr.startswith("pinproof: ")
    assert done.stderr.count("\n") == 1
    assert sandboxes() <= before
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_no_kernel_headers_are_needed(tmp_path: Path, place: str) -> None:
    """With no header of any kernel in reach a window is watched and judged."""
    done = pinproof(tmp_path, place, NO_HEADERS, "watch")

    assert done.returncode in (0, 3), done.stderr
    assert "of the kernel's" in done.stdout


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path, place: str) -> None:
    """Before anything is watched."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = pinproof(tmp_path, place, ("env",), "watch", "--metrics-port", str(taken.getsockname()[1]))

    assert done.returncode == 2
    assert "in use" in done.stderr
    assert done.stderr.count("\n") == 1
