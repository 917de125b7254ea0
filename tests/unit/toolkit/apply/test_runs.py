"""Cleaning up: what the journal names, all of it, and nothing else. The trees stand for cgroup file systems."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from toolkit.apply import runs
from toolkit.host import cgroupfs

MOUNTS = """34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in (
        ("proc/self/mountinfo", MOUNTS),
        ("proc/sys/kernel/random/boot_id", "this-boot\n"),
        ("sys/fs/cgroup/unified/cgroup.controllers", ""),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("cpuset", "cpu", "unified"):
        (tmp_path / "sys/fs/cgroup" / name / "kubepods/pod1").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/pinproof").mkdir(mode=0o700)
    return tmp_path


def dead_run(root: Path, run_id: str, **more: object) -> Path:
    """Make a run of an earlier boot with cgroups in two hierarchies."""
    directory = root / "run/pinproof" / run_id
    directory.mkdir(mode=0o700)
    record = {"what": "run", "run_id": run_id, "boot_id": "old", "hierarchies": ["cpuset", "unified"], **more}
    (directory / "journal.jsonl").write_text(json.dumps(record) + "\n")
    (directory / "journal.jsonl").chmod(0o600)
    for name in ("cpuset", "unified"):
        (root / f"sys/fs/cgroup/{name}/pinproof-{run_id}/pod/c").mkdir(parents=True)
    (root / f"sys/fs/cgroup/unified/pinproof-{run_id}-runtime").mkdir()
    return directory


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_no_runs_is_nothing_to_do(tmp_path: Path) -> None:
    """A host that never ran pinproof needs no cgroups to be clean."""
    assert runs.cleanup(tmp_path) == runs.CleanupReport()


def test_a_dead_run_is_removed_and_nothing_else(root: Path) -> None:
    """Its cgroups in the hierarchies it names and its directory go; other cgroups stay."""
    (root / "run/pinproof").rmdir()
    before = tree(root)
    (root / "run/pinproof").mkdir(mode=0o700)
    dead_run(root, "r1")
    assert runs.cleanup(root) == runs.CleanupReport(removed=("r1",))
    assert tree(root) == before


def test_an_unborn_run_is_removed(root: Path) -> None:
    """A directory without journal goes, with its draft."""
    (root / "run/pinproof/r1").mkdir(mode=0o700)
    (root / "run/pinproof/r1/journal.jsonl.new").write_text("{")
    assert runs.cleanup(root).removed == ("r1",)
    assert not (root / "run/pinproof").exists()


def test_an_unborn_run_with_foreign_files_is_left(root: Path) -> None:
    """Files that no run writes before its journal are not ours to remove."""
    (root / "run/pinproof/r1").mkdir(mode=0o700)
    (root / "run/pinproof/r1/precious").write_text("x")
    report = runs.cleanup(root)
    assert report.removed == ()
    assert "no journal" in report.problems[0]
    assert (root / "run/pinproof/r1/precious").exists()


@pytest.mark.parametrize("name", ["../../etc", "memory", "/", "cpuset/../.."])
def test_a_journal_cannot_name_other_places(root: Path, name: str) -> None:
    """A hierarchy is a name that this host has, never a path; then nothing of the run is touched."""
    directory = dead_run(root, "r1", hierarchies=["cpuset", name])
    before = tree(root)
    report = runs.cleanup(root)
    assert report.removed == ()
    assert "hierarchy" in report.problems[0]
    assert tree(root) == before
    assert directory.exists()


def test_a_link_beside_the_runs_is_not_followed(root: Path) -> None:
    """A link in /run/pinproof is reported, and its target stays whole; honest neighbours are still cleaned."""
    victim = root / "victim"
    victim.mkdir()
    (victim / "file").write_text("x")
    (root / "run/pinproof/evil").symlink_to(victim)
    (root / "run/pinproof/stray").write_text("x")
    (root / "run/pinproof/odd/journal.jsonl.new").mkdir(parents=True, mode=0o700)
    dead_run(root, "r1")
    report = runs.cleanup(root)
    assert report.removed == ("r1",)
    assert len(report.problems) == 3
    assert (victim / "file").exists()


def test_a_link_inside_a_run_is_removed_not_followed(root: Path) -> None:
    """What a run's directory holds is removed by name; a link's target stays."""
    victim = root / "victim"
    victim.mkdir()
    (victim / "file").write_text("x")
    directory = dead_run(root, "r1")
    (directory / "link").symlink_to(victim)
    (directory / "deep").mkdir()
    (directory / "deep/link").symlink_to(victim)
    assert runs.cleanup(root).removed == ("r1",)
    assert (victim / "file").exists()


def test_unknown_controllers_are_refused(root: Path) -> None:
    """A journal may not have anything but a controller written to subtree_control; the run is kept for a human."""
    directory = dead_run(root, "r1")
    with (directory / "journal.jsonl").open("a") as stream:
        stream.write('{"what": "controllers", "controllers": ["cpuset -memory"]}\n')
    report = runs.cleanup(root)
    assert "cgroup v2 controller" in report.problems[0]
    assert directory.exists()


def test_controllers_are_turned_off_again(root: Path) -> None:
    """What the journal says was turned on and still is on is turned off."""
    directory = dead_run(root, "r1")
    control = root / "sys/fs/cgroup/unified/cgroup.subtree_control"
    control.write_text("cpu memory")
    with (directory / "journal.jsonl").open("a") as stream:
        stream.write('{"what": "controllers", "controllers": ["cpu", "io"]}\n')
    assert runs.cleanup(root).removed == ("r1",)
    assert control.read_text() == "-cpu"


def test_kept_masks_must_be_what_was_written(root: Path) -> None:
    """A journal that speaks of masks whose file is missing or a link is refused."""
    directory = dead_run(root, "r1")
    with (directory / "journal.jsonl").open("a") as stream:
        stream.write('{"what": "masks-kept"}\n')
    assert "missing" in runs.cleanup(root).problems[0]
    (directory / "affinities.json").symlink_to("/etc/hostname")
    assert "a symbolic link" in runs.cleanup(root).problems[0]
    (directory / "affinities.json").unlink()
    (directory / "affinities.json").write_text('[["x", 1, "0"]]')
    assert "not what a run writes" in runs.cleanup(root).problems[0]
    (directory / "affinities.json").write_text("[]")
    assert runs.cleanup(root).removed == ("r1",)


def test_a_run_of_one_hierarchy_turns_nothing_on(root: Path) -> None:
    """On a v2 host whose root has every controller off they stay off for a run that needs an identity only; a sandbox
    turns on what it needs.
    """
    mounts = MOUNTS.splitlines()[2] + "\n"
    (root / "proc/self/mountinfo").write_text(mounts)
    (root / "proc/self/stat").write_text(f"{os.getpid()} (pinproof) S " + " ".join(["1"] * 40))
    unified = root / "sys/fs/cgroup/unified"
    (unified / "cgroup.controllers").write_text("cpuset cpu memory")
    control = unified / "cgroup.subtree_control"
    control.write_text("")
    hierarchy = cgroupfs.detect(root)

    run, _ = runs.begin(root, hierarchy, "watch-1", runtime="cgroupfs", only=("unified",))
    assert control.read_text() == ""
    runs.end(root, hierarchy, run)
    assert control.read_text() == ""
    assert not run.directory.exists()
    run, _ = runs.begin(root, hierarchy, "run-1", runtime="cgroupfs")
    assert control.read_text() == "+cpuset +cpu +memory"
