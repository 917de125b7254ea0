"""The kernel's notices of writes, on files of any kind: whose directory it was; what is not known is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.writes.notices import Notices


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("db", "web"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.max").write_text("max 100000\n")
    return tmp_path


def test_a_write_is_the_directorys(folder: Path) -> None:
    """Once, however many there were; of files that were there before and of new ones; reading is none."""
    notices = Notices()
    assert notices.add(b"1", 11, folder / "db")
    assert notices.add(b"2", 12, folder / "web")
    assert notices.take() == set()
    (folder / "db/cpu.max").read_text()
    assert notices.take() == set()
    with (folder / "db/cpu.max").open("r+") as file:
        for _ in range(3):
            file.write("1")
            file.flush()
    assert notices.waiting()
    assert notices.take() == {11}
    assert not notices.waiting()
    (folder / "web/cpu.weight").write_text("1")
    (folder / "db/cpu.max").write_text("2")
    assert notices.take() == {11, 12}
    assert notices.take() == set()
    notices.close()


def test_a_folder_that_is_not_watched_is_not_heard(folder: Path) -> None:
    """A directory that was given up, and one that is gone: neither makes the rest unknown."""
    notices = Notices()
    assert notices.add(b"1", 11, folder / "db")
    assert notices.add(b"2", 12, folder / "web")
    notices.remove(b"1")
    notices.remove(b"3")
    (folder / "web/cpu.max").write_text("1")
    (folder / "web/cpu.max").unlink()
    (folder / "web").rmdir()
    (folder / "db/cpu.max").write_text("1")
    assert notices.take() == {12}
    assert not notices.add(b"4", 14, folder / "web")
    assert not notices.add(b"5", 15, folder / "db/cpu.max")
    assert notices.take() == set()
    notices.close()


def test_a_queue_that_ran_over_is_said(folder: Path) -> None:
    """Once: the reader that is asked then reads everything, and what comes after is known again."""
    longest = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if longest > 100_000:
        pytest.skip(f"fs.inotify.max_queued_events is {longest}")
    notices = Notices()
    assert notices.add(b"1", 11, folder / "db")
    assert notices.add(b"2", 12, folder / "web")
    with (folder / "db/cpu.max").open("r+b", 0) as one, (folder / "web/cpu.max").open("r+b", 0) as other:
        for _ in range(longest // 2 + 1):  # the same one after the other is one event
            one.write(b"1")
            other.write(b"1")
    assert notices.take() is None
    (folder / "db/cpu.max").write_text("1")
    assert notices.take() == {11}
    notices.close()


def test_without_a_queue_nothing_is_known(folder: Path) -> None:
    """As where the kernel gives none."""
    notices = Notices()
    notices.close()
    assert not notices.add(b"1", 11, folder / "db")
    assert notices.take() is None
    notices.remove(b"1")
