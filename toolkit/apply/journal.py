"""The journal of a run: what was about to be made, written down before it was made.

``/run/pinproof/<run_id>/journal.jsonl`` holds one record a line. The first line appears with the file itself (rename),
every later line is one ``write``; so SIGKILL leaves a journal that is complete up to what was done, or no journal and
nothing done. Every file of a run lives in the same directory.

A journal is read back by root after a crash, so it is input like any other: directories and files that are links, not
ours, too large or not understood are refused with a reason and nothing is done on their word.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolkit.apply.change import HostChange
from toolkit.apply.run_files import making
from toolkit.errors import ApplyError, InputError
from toolkit.host import procfs
from toolkit.host.privileges import Cap, how_to_get
from toolkit.model.serde import from_json, stage_value, to_json
from toolkit.regular_file import open_regular

RUNS = "run/pinproof"
"""Of root. Each other user has a directory of its own beside it, ``run/pinproof-UID``: no user acts on the word of
another's journals, and a watch that a service user runs is in no other's way."""
JOURNAL = "journal.jsonl"
MAX_JOURNAL_BYTES = 4 * 1024 * 1024
RUNTIME_SUFFIX = "-runtime"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line. Which fields count depends on ``what``.

    ``run``: ``run_id``; ``pid``, ``start_time`` and ``pid_namespace`` of its process; ``boot_id``; and ``hierarchies``,
    the names under which ``/pinproof-<run_id>`` (and ``/pinproof-<run_id>-runtime``) may exist.
    ``controllers``: v2 ``controllers`` that were off in the root's subtree_control and are about to be turned on.
    ``masks-kept``: the affinities of all tasks stand in the file ``affinities.json``.
    ``masks-restored``: they have been put back, the file is history.
    ``changes``: ``changes`` are about to be made, in this order.
    """

    what: str
    run_id: str = ""
    pid: int = 0
    start_time: int = 0
    pid_namespace: int = 0
    boot_id: str = ""
    hierarchies: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    changes: tuple[HostChange, ...] = ()


_KINDS = ("run", "controllers", "masks-kept", "masks-restored", "changes")


def check_run_id(run_id: str) -> str:
    """Return the run id if it can name a directory and a cgroup.

    :raises InputError: it cannot.
    """
    if not _RUN_ID.fullmatch(run_id) or run_id.endswith(RUNTIME_SUFFIX):
        raise InputError(
            "run id", repr(run_id[:80]), f"up to 128 letters, digits, '_', '.', '-', not ending in {RUNTIME_SUFFIX}"
        )
    return run_id


@dataclass(frozen=True, slots=True)
class Journal:
    """The records of one run and where they are kept."""

    directory: Path
    records: tuple[Record, ...]
    lease: int = -1
    """Descriptor on which the live run itself holds a lock for as long as it lives; -1 in the hands of others."""

    @property
    def run(self) -> Record:
        """The first record."""
        return self.records[0]

    @property
    def run_id(self) -> str:
        """Name of the run, of its directory, and (behind ``/pinproof-``) of its cgroups."""
        return self.run.run_id

    def find(self, what: str) -> tuple[Record, ...]:
        """Return the records of one kind."""
        return tuple(record for record in self.records if record.what == what)

    def alive(self, root: Path) -> bool:
        """Return whether the process that made the run still exists.

        Same boot, same pid and same start, where pids can be compared. A process in another pid namespace (a container
        that shares /run) has another number here: of it, only the lock on the journal shows it.
        """
        if self.run.boot_id != procfs.boot_id(root):
            return False
        if self.run.pid_namespace == procfs.pid_namespace(root):
            return procfs.start_time(self.run.pid, root) == self.run.start_time
        return _is_locked(self.directory / JOURNAL)


def runs_directory(root: Path) -> Path:
    """Return the directory of all runs."""
    user = os.geteuid()
    return root / (f"{RUNS}-{user}" if user else RUNS)


def create(root: Path, run_id: str, hierarchies: tuple[str, ...]) -> Journal:
    """Write the journal of a new run; the caller holds :func:`locked`.

    :raises InputError: a run of that name exists.
    """
    directory = runs_directory(root) / check_run_id(run_id)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        raise InputError("run id", f"{run_id!r} is in use ({directory})", "another one, or pinproof cleanup") from None
    except OSError as error:
        raise ApplyError(f"{directory}: {error.strerror}") from None
    try:
        return _first(root, run_id, hierarchies, directory)
    except BaseException:
        # Nothing of the run was made yet.
        with contextlib.suppress(OSError):
            shutil.rmtree(directory)
        raise


def _first(root: Path, run_id: str, hierarchies: tuple[str, ...], directory: Path) -> Journal:
    """Write the first record. It appears with its file, which the live run keeps locked."""
    pid = os.getpid()
    first = Record(
        what="run",
        run_id=run_id,
        pid=pid,
        start_time=procfs.start_time(pid, root) or 0,
        pid_namespace=procfs.pid_namespace(root),
        boot_id=procfs.boot_id(root),
        hierarchies=hierarchies,
    )
    draft = directory / f"{JOURNAL}.new"
    with making(draft):
        lease = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
    try:
        fcntl.flock(lease, fcntl.LOCK_EX)
        _write_line(lease, first, directory)
        draft.rename(directory / JOURNAL)
    except BaseException:
        os.close(lease)
        raise
    return Journal(directory, (first,), lease)


def append(journal: Journal, record: Record) -> Journal:
    """Write one more line; it is in the kernel's hands when this returns."""
    descriptor = os.open(journal.directory / JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _write_line(descriptor, record, journal.directory)
    finally:
        os.close(descriptor)
    return Journal(journal.directory, (*journal.records, record), journal.lease)


def _write_line(descriptor: int, record: Record, directory: Path) -> None:
    line = (to_json(record) + "\n").encode()
    try:
        written = os.write(descriptor, line)
        if written < len(line):
            # A full file system takes a part. The next record would be the rest of this line, and neither be read.
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise ApplyError(f"{directory / JOURNAL}: no space left")
    except OSError as error:
        raise ApplyError(f"{directory / JOURNAL}: {error.strerror}") from None


def release(journal: Journal) -> None:
    """Let go of the lock that a live run holds on its journal."""
    if journal.lease >= 0:
        os.close(journal.lease)


def _is_locked(path: Path) -> bool:
    """Return whether something holds the lock. Where that cannot be known (no descriptor is free): yes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read(directory: Path) -> Journal | None:
    """Read the journal of a run's directory; ``None`` if the run died before it had one.

    :raises InputError: it must not be trusted; the message says why.
    """
    _owned(directory, stat.S_ISDIR, "a directory")
    path = directory / JOURNAL
    try:
        with open_regular(path) as stream:
            found = os.fstat(stream.fileno())
            if found.st_nlink != 1:
                raise InputError(str(path), "a file with other names", "a regular file with one name")
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                mode = f"owner {found.st_uid}, mode {found.st_mode & 0o777:o}"
                raise InputError(str(path), mode, "a file of our own")
            if found.st_size > MAX_JOURNAL_BYTES:
                raise InputError(str(path), f"{found.st_size} bytes", f"at most {MAX_JOURNAL_BYTES}")
            text = stream.read(MAX_JOURNAL_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a regular file with one name") from None
    lines = text.split(b"\n")
    # A line without its end was being written when the run died: what it announces was not begun.
    records = tuple(from_json(Record, line, f"{path} line {number}") for number, line in enumerate(lines[:-1], 1))
    if not records or records[0].what != "run" or any(record.what not in _KINDS for record in records):
        raise InputError(str(path), "not a journal of pinproof", "a first record 'run' and known kinds")
    if any(record.what == "run" for record in records[1:]) or check_run_id(records[0].run_id) != directory.name:
        raise InputError(str(path), f"it speaks for run {records[0].run_id!r}", directory.name)
    return Journal(directory, records)


def _owned(path: Path, kind: Callable[[int], bool], expected: str) -> None:
    try:
        found = path.lstat()
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), expected) from None
    if not kind(found.st_mode):
        raise InputError(str(path), "a link or a special file", expected)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise InputError(str(path), f"owner {found.st_uid}, mode {found.st_mode & 0o777:o}", f"{expected} of our own")


@contextlib.contextmanager
def locked(root: Path) -> Iterator[Path]:
    """Hold the lock of all runs: making and unmaking a run exclude each other; SIGKILL lets go of it.

    The lock is the runs' directory itself, made if missing and removed when the last run has left it.

    :raises InputError: the directory must not be trusted. :raises ApplyError: it cannot be made.
    """
    directory = runs_directory(root)
    while True:
        try:
            directory.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            # Not exist_ok: pathlib would then look at it once more, and the last run may remove it in between.
            pass
        except OSError as error:
            how = f": {how_to_get(Cap.DAC_OVERRIDE)}" if error.errno == errno.EACCES else ""
            raise ApplyError(f"{directory} cannot be made: {error.strerror}{how}") from None
        try:
            _owned(directory, stat.S_ISDIR, "a directory")
        except InputError:
            if os.path.lexists(directory):
                raise
            continue
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The last holder may have removed it while we waited.
            if _same(descriptor, directory):
                try:
                    yield directory
                finally:
                    with contextlib.suppress(OSError):
                        directory.rmdir()
                return
        finally:
            os.close(descriptor)


def _same(descriptor: int, directory: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), directory.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
