"""``watch --live`` on a real terminal: what runs where, a violation as it comes, keys, and what stays when it ends."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.integration.working_cgroup import spinner, wait_until, write_claim

pytest.importorskip("rich", reason="rich is not installed (pip install 'pinproof[live]')")


def test_a_violation_is_seen_on_the_screen_and_stays_afterwards(tmp_path: Path) -> None:
    """A task beside its claim is marked, what was printed meanwhile is printed at the end, and ``q`` ends the watch."""
    used = min(os.sched_getaffinity(0))
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # closed at its other end
            while found := os.read(ours, 4096):
                shown.extend(found)

    with spinner("pinproof-live") as cgroup:
        claims = write_claim(tmp_path, "claims", cgroup, max(os.sched_getaffinity(0)))
        command = [
            sys.executable,
            "-m",
            "toolkit",
            "watch",
            "--claims",
            claims,
            "--live",
            "--window",
            "2",
            "--output",
            tmp_path / "runs",
        ]
        with subprocess.Popen(
            command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm-256color"}
        ) as watch:
            os.close(theirs)
            threading.Thread(target=read, daemon=True).start()
            wait_until(lambda: "✘ 1 claim outside".encode() in shown, "the claim is marked")
            os.write(ours, b"s")
            wait_until(lambda: b"(all, by used)" in shown, "the key was obeyed")
            os.write(ours, b"q")
            printed = watch.communicate(timeout=30)[0].decode()

    _, _, after = shown.decode("utf-8", "replace").rpartition("\x1b[?1049l")
    assert watch.returncode == 1
    assert f"ran on CPU {used}, outside its set" in after
    assert "cpuset-containment" in printed
