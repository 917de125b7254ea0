"""Which CPUs are online: what the kernel says when it is asked, through a file that stays open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probes.online import Online
from toolkit.model.cpuset import CpuSet


def test_the_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time the list is read anew; afterwards nothing is left open, and the next question opens it."""
    place = tmp_path / "sys/devices/system/cpu"
    place.mkdir(parents=True)
    (place / "online").write_text("0-3\n")
    online = Online(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with online, monkeypatch.context() as patch:
        patch.setattr(os, "open", None)
        assert online.read() == CpuSet.parse("0-3")
        (place / "online").write_text("0,2-3\n")
        assert online.read() == CpuSet.parse("0,2-3")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert online.read() == CpuSet.parse("0,2-3")
    (place / "online").unlink()
    with pytest.raises(FileNotFoundError, match="online"):
        online.read()
