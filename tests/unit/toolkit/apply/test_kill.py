"""Who does not die is named: pid, name, state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.apply import kill
from toolkit.errors import ApplyError
from toolkit.host import procfs


def test_who_does_not_die_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cgroup that lists us, and nobody who kills: the error says which process is left, and in which state."""
    monkeypatch.setattr(kill, "_kill_once", lambda top: None)
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    with pytest.raises(ApplyError) as caught:
        kill.remove([tmp_path], deadline_s=0.0)
    text = f"not killed: {os.getpid()} ({procfs.comm(os.getpid())}, R (running))"
    assert str(caught.value) == f"{tmp_path}: cannot be emptied within 0 s: {text}"
