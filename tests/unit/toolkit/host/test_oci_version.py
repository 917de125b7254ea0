"""Which runtime made the containers: by what the tool prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.host.oci_version import read_runtime, version_of
from toolkit.model.evidence import Runtime


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("runc", "runc version 1.3.2\ncommit: v1.3.2-0-gaeabe4e7\nspec: 1.2.1\n", "1.3.2"),
        ("runc", "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\n", "1.1.5+ds1"),
        ("crun", "crun version 1.8.1\ncommit: f8a096\nrundir: /run/crun\n+SYSTEMD +CRIU\n", "1.8.1"),
        ("runc", "crun version 1.23\n", ""),
        ("runc", "usage: something else", ""),
        ("crun", "", ""),
    ],
)
def test_the_version_that_a_tool_prints(name: str, text: str, version: str) -> None:
    """The first line of the tool's own; another tool's answer is none."""
    assert version_of(name, text) == version


def test_pinproof_itself_needs_no_tool() -> None:
    """Cgroups that pinproof writes have no runtime's version."""
    assert read_runtime("cgroupfs") == Runtime(name="cgroupfs")


def fake(folder: Path, body: str) -> None:
    """Put a ``runc`` of ours into a folder."""
    tool = folder / "runc"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)


def test_the_tool_on_the_path_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runc that is found first tells; one that fails, or none, leaves the version unknown."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")

    fake(tmp_path, "echo 'runc version 1.4.0-rc.1'")
    told = read_runtime("runc")
    fake(tmp_path, "echo 'runc version 9'; exit 1")
    failed = read_runtime("runc")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    missing = read_runtime("runc")

    assert told == Runtime(name="runc", version="1.4.0-rc.1")
    assert failed == missing == Runtime(name="runc")
