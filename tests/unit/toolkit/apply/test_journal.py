"""The journal: complete after any death, and never believed when it is not ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.descriptors import few_descriptors
from toolkit.apply import journal
from toolkit.apply.journal import Record
from toolkit.errors import ApplyError, InputError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with the few files of /proc that say which process we are."""
    ours = f"{os.getpid()} (py test) S 1 " + " ".join(["0"] * 17) + " 4711 0"
    for name, text in (
        (f"proc/{os.getpid()}/stat", ours),
        ("proc/sys/kernel/random/boot_id", "boot-1\n"),
        ("proc/self/ns/pid", ""),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def made(root: Path) -> journal.Journal:
    with journal.locked(root):
        return journal.create(root, "r1", ("cpu", "unified"))


def test_what_is_written_is_read_back(made: journal.Journal) -> None:
    """Create, append, read: the same records in the same order."""
    longer = journal.append(made, Record(what="controllers", controllers=("cpuset",)))
    found = journal.read(made.directory)
    assert found is not None
    assert found.records == longer.records
    assert found.run.hierarchies == ("cpu", "unified")
    assert found.find("controllers")[0].controllers == ("cpuset",)


def test_a_torn_last_line_was_never_begun(made: journal.Journal) -> None:
    """A line without its end is dropped: what it announces had not been started."""
    with (made.directory / journal.JOURNAL).open("a") as stream:
        stream.write('{"what": "contr')
    found = journal.read(made.directory)
    assert found is not None
    assert found.records == made.records


@pytest.mark.parametrize("taken", [0, 7])
def test_a_full_file_system(made: journal.Journal, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    """The record that did not fit is refused and gone; one that fits later is read, and so are those before."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:taken]))
    with pytest.raises(ApplyError, match="no space left"):
        journal.append(made, Record(what="controllers", controllers=("cpu",)))
    monkeypatch.setattr(os, "write", write)
    journal.append(made, Record(what="masks-kept"))
    found = journal.read(made.directory)
    assert found is not None
    assert [record.what for record in found.records] == ["run", "masks-kept"]


def test_a_run_that_cannot_be_written_down_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its directory nor a draft: nothing was made, and the name is free."""
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda *_: 0)
        with journal.locked(root), pytest.raises(ApplyError, match="no space left"):
            journal.create(root, "r1", ("cpu",))
    assert not journal.runs_directory(root).exists()
    with journal.locked(root):
        assert journal.create(root, "r1", ("cpu",)).run_id == "r1"


def test_a_directory_without_journal_is_unborn(root: Path) -> None:
    """Death before the first rename: no journal, and nothing else can exist."""
    directory = root / "run/pinproof/dead"
    directory.mkdir(parents=True)
    (directory / "journal.jsonl.new").write_text("{")
    assert journal.read(directory) is None


def test_pid_start_and_boot_decide_which_run_lives(root: Path, made: journal.Journal) -> None:
    """The run lives while its pid has the same start time on the same boot."""
    assert made.alive(root)
    stat = root / f"proc/{os.getpid()}/stat"
    text = stat.read_text()
    stat.write_text(text.replace("4711", "4712"))
    assert not made.alive(root)
    stat.write_text(text)
    (root / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    assert not made.alive(root)


def test_another_pid_namespace_is_judged_by_the_lock(root: Path, made: journal.Journal) -> None:
    """Where pids cannot be compared, the lock tells: held means alive, released means dead."""
    elsewhere = root / "proc/self/ns/pid"
    elsewhere.rename(root / "old")
    elsewhere.write_text("")
    seen = journal.read(made.directory)
    assert seen is not None
    assert seen.alive(root)
    journal.release(made)
    assert not seen.alive(root)
    (made.directory / journal.JOURNAL).unlink()
    assert not seen.alive(root)


def test_a_lock_that_cannot_be_looked_at_is_held(made: journal.Journal) -> None:
    """A process without a descriptor left must not take a run at work for a dead one, and clean it up."""
    with few_descriptors(0):
        locked = journal._is_locked(made.directory / journal.JOURNAL)
    assert locked


def test_a_run_id_in_use_is_refused(root: Path, made: journal.Journal) -> None:
    """Two runs of one name cannot be: one line says what to do."""
    with journal.locked(root), pytest.raises(InputError, match="in use"):
        journal.create(root, "r1", ())


@pytest.mark.parametrize("run_id", ["", "a/b", "..", "-x", "a b", "x" * 129, "r1-runtime", "ä"])
def test_run_ids_that_cannot_name_a_cgroup_are_refused(run_id: str) -> None:
    """A run id names a directory and a cgroup."""
    with pytest.raises(InputError, match="run id"):
        journal.check_run_id(run_id)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a journal"),
        ("{}\n", "what"),
        ("not json\n", "line 1"),
        ('{"what": "run", "run_id": "r1", "evil": 1}\n', "evil"),
        ('{"what": "controllers"}\n', "not a journal"),
        ('{"what": "run", "run_id": "r1"}\n{"what": "rm -rf"}\n', "not a journal"),
        ('{"what": "run", "run_id": "other"}\n', "speaks for run 'other'"),
        ('{"what": "run", "run_id": "../x"}\n', "run id"),
        ('{"what": "run", "run_id": "r1"}\n{"what": "run", "run_id": "r1"}\n', "speaks for"),
        ("[" * 100_000 + "\n", "line 1"),
    ],
)
def test_a_journal_that_makes_no_sense_is_refused(root: Path, text: str, message: str) -> None:
    """Every wrong journal is one line with its path, never a crash."""
    directory = root / "run/pinproof/r1"
    directory.mkdir(parents=True, mode=0o700)
    (directory / "journal.jsonl").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        journal.read(directory)
    assert "\n" not in str(caught.value)


def test_links_and_foreign_files_are_refused(root: Path, made: journal.Journal) -> None:
    """Links to a journal, hard or soft, writable ones, huge ones and linked directories are not followed."""
    path = made.directory / journal.JOURNAL
    os.link(path, root / "hard")
    with pytest.raises(InputError, match="link"):
        journal.read(made.directory)
    (root / "hard").unlink()
    path.chmod(0o666)
    with pytest.raises(InputError, match="mode 666"):
        journal.read(made.directory)
    path.chmod(0o600)
    os.truncate(path, journal.MAX_JOURNAL_BYTES + 1)
    with pytest.raises(InputError, match="at most"):
        journal.read(made.directory)
    path.rename(root / "elsewhere")
    path.symlink_to(root / "elsewhere")
    with pytest.raises(InputError, match="regular file"):
        journal.read(made.directory)
    (root / "run/pinproof/soft").symlink_to(made.directory)
    with pytest.raises(InputError, match="link"):
        journal.read(root / "run/pinproof/soft")


def test_the_last_run_takes_the_directory_with_it(root: Path) -> None:
    """The lock is the directory: it leaves no file behind, and stays while a run is in it."""
    with journal.locked(root) as directory:
        assert directory.is_dir()
    assert not directory.exists()
    with journal.locked(root):
        made = journal.create(root, "r2", ())
    assert made.directory.is_dir()


def test_a_linked_runs_directory_is_refused(root: Path) -> None:
    """/run/pinproof as a link, or writable for others, is nothing to work in."""
    (root / "run").mkdir()
    (root / "run/pinproof").symlink_to(root)
    with pytest.raises(InputError, match="link"), journal.locked(root):
        pass
    (root / "run/pinproof").unlink()
    (root / "run/pinproof").mkdir()
    (root / "run/pinproof").chmod(0o777)
    with pytest.raises(InputError, match="mode 777"), journal.locked(root):
        pass
