"""Files and directories that change are noticed, by inotify and by looking."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.sources import changes
from toolkit.sources.changes import Changes

PATIENCE_S = 5.0


def _replace(folder: Path) -> None:
    (folder / "new").write_text("2")
    (folder / "new").replace(folder / "state")


ACTS: dict[str, Callable[[Path], object]] = {
    "made": lambda folder: (folder / "pod").mkdir(),
    "removed": lambda folder: (folder / "old").rmdir(),
    "written": lambda folder: (folder / "state").write_text("22"),
    "replaced": _replace,
}


@pytest.mark.parametrize("inotify", [True, False])
@pytest.mark.parametrize("act", ACTS)
def test_a_change_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, *, inotify: bool) -> None:
    """A child made or removed, a file written, or replaced as the kubelet replaces its state; then nothing more."""
    monkeypatch.setattr(changes, "LOOK_S", 0.05)
    (tmp_path / "old").mkdir()
    (tmp_path / "state").write_text("1")
    with Changes(inotify=inotify) as watched:
        watched.follow([tmp_path, tmp_path / "state"])
        assert not watched.wait(0.1)
        timer = threading.Timer(0.05, ACTS[act], [tmp_path])
        timer.start()
        assert any(watched.wait(PATIENCE_S) for _ in range(10))
        timer.join()
        watched.follow([tmp_path, tmp_path / "state"])
        watched.wait(0.1)
        assert not watched.wait(0.1)


def test_what_is_made_again_is_watched_again(tmp_path: Path) -> None:
    """A directory of the same name is another one."""
    pod = tmp_path / "pod"
    pod.mkdir()
    with Changes() as watched:
        watched.follow([tmp_path, pod])
        pod.rmdir()
        pod.mkdir()
        assert watched.wait(PATIENCE_S)
        watched.follow([tmp_path, pod])
        assert not watched.wait(0.1)
        (pod / "container").mkdir()
        assert watched.wait(PATIENCE_S)


def test_what_does_not_exist_is_left_out(tmp_path: Path) -> None:
    """Nothing to watch is nothing that changes."""
    with Changes() as watched:
        watched.follow([tmp_path / "none"])
        assert not watched.wait(0.05)
