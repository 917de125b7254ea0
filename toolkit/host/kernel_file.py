"""A small file that the kernel writes when it is read: in one call, as bytes. Those that are read by the thousand."""

from __future__ import annotations

import os


def read_once(path: str, most_bytes: int) -> bytes | None:
    """Return what one read gives, ``most_bytes`` at most; ``None`` if the file is gone, or cannot be read."""
    try:
        # O_NONBLOCK: a FIFO planted in a copied tree must not stop the reader.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, most_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)
