"""A small file that the kernel writes when it is read: in one call, as bytes. Those that are read by the thousand."""

from __future__ import annotations

import errno
import os
from pathlib import Path

GONE = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ESRCH)
"""What the kernel says of a file whose cgroup or thread exists no more."""
_PART = 1 << 13


def open_to_read(path: Path | str) -> int:
    """Open a file of the kernel and return its descriptor. :raises OSError: it is gone, or the kernel refuses."""
    # O_NONBLOCK: a FIFO planted in a copied tree must not stop the reader.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def open_if_there(path: Path | str) -> int | None:
    """Do the same; ``None`` if it is gone. :raises OSError: the kernel refuses for another reason."""
    try:
        return open_to_read(path)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise


def read_once(path: str, most_bytes: int) -> bytes | None:
    """Return what one read gives, ``most_bytes`` at most; ``None`` if the file is gone, or cannot be read."""
    try:
        descriptor = open_to_read(path)
    except OSError:
        return None
    try:
        return os.read(descriptor, most_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_record(path: str) -> bytes | None:
    """Return a file that the kernel writes as one record (``/proc/<tid>/status``); ``None`` if it is gone.

    What a read leaves is not there: a second read, which would say so, costs as much as a tenth of the first. Lists of
    many records (``cgroup.procs``) end where a read gives nothing, and are not read here.

    :raises OSError: the kernel refuses for another reason.
    Source: fs/seq_file.c (``single_open``: the whole record is made before anything is copied).
    """
    descriptor = open_if_there(path)
    if descriptor is None:
        return None
    try:
        found = part = os.read(descriptor, _PART)
        while len(part) == _PART:  # of a process in thousands of groups
            part = os.read(descriptor, _PART)
            found += part
    except OSError as error:
        if error.errno in GONE:
            return None
        raise
    finally:
        os.close(descriptor)
    return found
