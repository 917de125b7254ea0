"""Control files that stay open, on the kernel's own file systems: a cgroup that is made anew is another one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.cgroups.control_files import ControlFiles
from probes.cgroups.known_files import KnownFiles
from toolkit.host import cgroupfs
from toolkit.host.kept_files import KeptFiles, Places

pytestmark = [pytest.mark.integration, pytest.mark.beside]

HIERARCHY = cgroupfs.detect()
NAME = f"/pinproof-kept-{os.getpid()}"


def quota_file() -> tuple[Path, str, str]:
    """Return the folder of a cgroup with a quota, its file, and a text of 20 ms."""
    old = not HIERARCHY.is_v2("cpu")
    mount = HIERARCHY.find_controller("cpu")
    if mount is None:
        pytest.skip("no cpu controller")
    return (mount / NAME[1:], "cpu.cfs_quota_us", "20000") if old else (mount / NAME[1:], "cpu.max", "20000 100000")


@pytest.fixture
def place() -> Iterator[tuple[Path, str, str]]:
    folder, file, text = quota_file()
    made = folder.with_name(f"{folder.name}-before")
    folder.mkdir()
    try:
        if not (folder / file).exists():
            pytest.skip("the root's cgroups have no quota here")
        yield folder, file, text
    finally:
        for one in (folder, made):
            if one.exists():
                one.rmdir()


def test_a_cgroup_that_is_made_anew_is_seen(place: tuple[Path, str, str]) -> None:
    """Its files were open: what has its name is read, or nothing as long as nothing has it."""
    folder, file, text = place
    with KeptFiles() as kept:
        known = KnownFiles(HIERARCHY, kept)
        files = ControlFiles(known, {NAME: known.read(NAME)}, 0)
        (folder / file).write_text(text)
        files.read([NAME])
        assert kept.count > 0
        together: Places = ((str(folder), (file,)),)
        assert kept.read_groups([together]) == [(f"{text}\n".encode(),)]
        folder.rmdir()
        assert kept.read_groups([together]) == [None]
        assert kept.read(str(folder), [file]) == [None]
        assert known.read(NAME).empty
        files.read([NAME])
        folder.mkdir()
        files.read([NAME])
        assert [row.quota_us for row in files.changes(0)] == [20_000, -1]
        (folder / file).write_text(text)
        assert known.read(NAME).quota_us == 20_000
        assert kept.read_groups([together]) == [(f"{text}\n".encode(),)]


def test_a_cgroup_that_is_renamed_is_seen(place: tuple[Path, str, str]) -> None:
    """Only v1 allows it: the old one's files stay readable where they are open."""
    folder, file, text = place
    if HIERARCHY.is_v2("cpu"):
        pytest.skip("a v2 cgroup cannot be renamed")
    with KeptFiles() as kept:
        known = KnownFiles(HIERARCHY, kept)
        files = ControlFiles(known, {NAME: known.read(NAME)}, 0)
        folder.rename(folder.with_name(f"{folder.name}-before"))
        folder.mkdir()
        (folder / file).write_text(text)
        files.read([NAME])
        assert [row.quota_us for row in files.changes(0)] == [20_000]
