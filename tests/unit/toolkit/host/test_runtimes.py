"""Which runtime made the containers, by what the tool prints, and which can work with the cgroups of a host."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host.cgroup_mounts import Hierarchy, Mode
from toolkit.host.runtimes import read_runtime, require_runtime, version_of
from toolkit.model.evidence import Runtime
from toolkit.model.runtimes import RUNTIMES, find_runtime


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("runc", "runc version 1.3.2\ncommit: v1.3.2-0-gaeabe4e7\nspec: 1.2.1\n", "1.3.2"),
        ("runc", "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\n", "1.1.5+ds1"),
        ("crun", "crun version 1.8.1\ncommit: f8a096\nrundir: /run/crun\n+SYSTEMD +CRIU\n", "1.8.1"),
        ("youki", "youki version: 0.7.0\ncommit: 0.7.0-unknown\n", "0.7.0"),
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


def hierarchy(mode: Mode) -> Hierarchy:
    """A host with these cgroup mounts."""
    return Hierarchy(root=Path("/"), mode=mode, unified=None if mode is Mode.V1 else Path("/sys/fs/cgroup"))


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_host_with_v1_only_runs_nothing(name: str) -> None:
    """The reason is the same for every runtime, and comes before its own."""
    with pytest.raises(HostUnsupportedError, match="cgroup v1 only"):
        require_runtime(RUNTIMES[name], hierarchy(Mode.V1))


def test_crun_needs_v2() -> None:
    """On a hybrid host crun is refused, and those that work there are named."""
    for name in RUNTIMES:
        require_runtime(RUNTIMES[name], hierarchy(Mode.V2))
    for name in ("cgroupfs", "runc"):
        require_runtime(RUNTIMES[name], hierarchy(Mode.HYBRID))

    with pytest.raises(HostUnsupportedError, match=r"^crun needs a cgroup v2 host.*--runtime cgroupfs or runc"):
        require_runtime(RUNTIMES["crun"], hierarchy(Mode.HYBRID))


def test_an_unknown_runtime_is_refused() -> None:
    """One line that lists those that exist."""
    with pytest.raises(InputError, match=r"^--runtime: 'docker'; expected cgroupfs, runc, crun"):
        find_runtime("docker")


def test_a_runtime_is_one_row() -> None:
    """No module but the table names a runtime that has a program: a developer who adds one touches one line."""
    project = Path(__file__).resolve().parents[4]
    programs = re.compile("|".join(f"[\"']{kind.program}[\"']" for kind in RUNTIMES.values() if kind.program))
    sources = (path for folder in ("toolkit", "probes", "validators") for path in (project / folder).rglob("*.py"))
    naming = {str(path.relative_to(project)) for path in sources if programs.search(path.read_text(encoding="utf-8"))}

    assert naming == {"toolkit/model/runtimes.py"}
