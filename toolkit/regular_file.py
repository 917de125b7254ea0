"""Reading a file that a stranger may have put there: no link is followed, no pipe waited for, no flood read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from toolkit.errors import InputError

MAX_BYTES = 16 * 1024 * 1024
"""Of a file of the kernel's, or of one that a user has named."""
_PART = 1 << 16


def regular_descriptor(path: Path | str) -> int:
    """Open a regular file to read, and return its descriptor, which the caller closes.

    For thousands of small files: a file object costs three times as much as reading one.

    :raises OSError: it cannot be opened; its ``strerror`` says so of a symbolic link, and of what is no regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


@contextmanager
def open_regular(path: Path | str) -> Iterator[BinaryIO]:
    """Open a regular file to read its bytes.

    :raises OSError: as :func:`regular_descriptor`.
    """
    with os.fdopen(regular_descriptor(path), "rb") as file:
        yield file


def read_regular(path: Path | str, most_bytes: int) -> bytes:
    """Return a regular file's bytes.

    :raises OSError: as :func:`open_regular`; or it is longer.
    """
    with os.fdopen(regular_descriptor(path), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes} bytes", str(path))
    return content


def read_bytes(path: Path | str) -> tuple[bytes | None, str]:
    """Return a regular file's bytes without waiting on it, never through a link; else ``None`` and why."""
    try:
        return read_regular(path, MAX_BYTES), ""
    except (OSError, ValueError) as error:
        return None, getattr(error, "strerror", None) or str(error)


def bytes_of(path: Path, expected: str) -> bytes:
    """Return the same of a file that the user named, through links: a pod's own token is one.

    :raises InputError: it cannot be read.
    """
    data, problem = read_bytes(os.path.realpath(path))
    if data is None:
        raise InputError(str(path), problem, expected)
    return data


def small_file(path: str) -> bytes | None:
    """Read the same of one of thousands; ``None``: it cannot be read."""
    try:
        descriptor = regular_descriptor(path)
    except (OSError, ValueError):
        return None
    try:
        found = os.read(descriptor, _PART)
        # A file of the kernel's may give less than was asked for in the middle: only nothing is the end.
        while part := os.read(descriptor, _PART) if found else b"":
            found += part
            if len(found) > MAX_BYTES:
                return None
        return found
    except OSError:
        return None
    finally:
        os.close(descriptor)
