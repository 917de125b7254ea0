"""Writing files and directories so that a reader sees all of them or none, also after a power cut."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolkit import presence
from toolkit.errors import InputError

Content = str | bytes | Sequence[bytes | memoryview]
"""Of a file; in pieces where it is large."""
PLACE = "a place that can be written"
NOT_SAVED = "a directory that can be written: this run is not saved, its verdicts are those that were printed"


def write_atomically(path: Path, text: str | bytes, *, replace: bool = True) -> Path:
    """Write a file so that a reader sees all of it or none, also after a power cut.

    :param replace: a file that exists may be replaced.
    :raises InputError: it cannot be written there.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            _write(temporary, text)
            _put(temporary, path, replace=replace)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(path.parent)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), PLACE) from None
    return path


def _put(temporary: Path, path: Path, *, replace: bool) -> None:
    """Give the file its name. A hard link is the one rename that refuses what exists; not every file system has it."""
    if not replace:
        try:
            path.hardlink_to(temporary)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                raise
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        else:
            temporary.unlink()
            return
    temporary.replace(path)


def write_directory(path: Path, files: Mapping[str, Content]) -> Path:
    """Make a new directory with these files (names may lead one folder down): all of it appears at once, or nothing.

    Written under a hidden name beside it and renamed, so that what a full disk or a kill leaves is no run.

    :raises InputError: it cannot be written there, or exists already; nothing is left.
    """
    # Not made of the name: that one may be as long as the file system allows.
    draft = path.with_name(f".pinproof-{secrets.token_hex(8)}")
    try:
        _make_parent(path.parent)
        try:
            draft.mkdir()
            for name, text in files.items():
                (draft / name).parent.mkdir(exist_ok=True)
                _write(draft / name, text)
            for folder in {(draft / name).parent for name in files} | {draft}:
                _sync(folder)
            draft.rename(path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        _sync(path.parent)
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), NOT_SAVED) from None
    return path


def remove_directory(path: Path) -> None:
    """Remove a directory that this process made with :func:`write_directory`: a reader sees all of it or nothing.

    Links in it are removed, not followed; a link in its place is refused. One that is gone already is no error.

    :raises InputError: it cannot be removed.
    """
    doomed = path.with_name(f".pinproof-{secrets.token_hex(8)}")
    try:
        if path.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        path.rename(doomed)
        shutil.rmtree(doomed)
    except FileNotFoundError:
        return
    except OSError as error:
        found = error.strerror or str(error)
        raise InputError(str(path), found, "a directory of this run, which --keep may remove") from None


def write_output(path: Path, text: str | bytes) -> Path:
    """Write a file that the user named: through links, and into devices and pipes instead of over them.

    :raises InputError: it cannot be written there.
    """
    try:
        if not path.exists() or path.is_file() or path.is_dir():
            target = path.resolve()
            if target.is_symlink():  # a loop of links: Python 3.13 and later resolve it to itself
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            return write_atomically(target, text)
        # By its own name: what /dev/stdout leads to has no path where it is a pipe.
        with path.open("wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
    except (OSError, RuntimeError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise InputError(str(path), found, PLACE) from None
    return path


def why_not_writable(path: Path, *, exists: bool = False) -> InputError | None:
    """Return why a directory cannot be written, as far as can be seen without making anything; ``None`` if it can.

    :param exists: it must be there already; else it may be made, below the nearest parent that is there.
    """
    try:
        place = path.absolute()
        while not exists and not os.path.lexists(place) and place != place.parent:
            place = place.parent
        if not presence.is_dir(place):
            return InputError(str(place), presence.why_no_directory(place), "a directory that can be written")
    except (OSError, ValueError) as error:
        return InputError(str(path), getattr(error, "strerror", None) or str(error), "a directory that can be written")
    if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
        return InputError(str(place), "cannot be written", "a directory that can be written")
    return None


def _make_parent(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        # mkdir would report "File exists" for a file or a dangling link, which is not what is wrong with it.
        raise NotADirectoryError(None, f"{path} is not a directory") from None


def _write(path: Path, content: Content) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        if isinstance(content, str):
            content = content.encode()
        file.writelines((content,) if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
