"""A tree of small kernel files that is nowhere on a disk: texts by their paths, and links between folders.

On a machine with hundreds of CPUs they are tens of thousands: writing them down to read them takes ten seconds of CPU.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.sysfs import MAX_ENTRIES, MAX_LINKS, SysTree


class TextTree(SysTree):
    """What :class:`~toolkit.host.sysfs.SysTree` is for files.

    :param where: what they are part of, for messages; not empty.
    :param files: text by path, without a leading ``/``. :param links: folder by path, in the same way.
    :raises InputError: a path goes through a file, or is two things.
    """

    def __init__(self, where: str, files: Mapping[str, str], links: Mapping[str, str]) -> None:
        super().__init__()
        self.root = where
        self._files, self._links = files, links
        self._inside: dict[str, set[str]] = {"": set()}
        """Names in each folder."""
        for path in (*files, *links):
            self._enter(path)
        for path in (*files, *links):
            if path in self._inside or (path in files and path in links):
                raise InputError(where, f"{path} is two things at once", "a file or a folder")

    def _enter(self, path: str) -> None:
        """Name a path in the folder above, and that one in the one above it, as far as they are new."""
        while path:
            folder, _, name = path.rpartition("/")
            known = self._inside.get(folder)
            if known is None:
                self._inside[folder] = {name}
            else:
                known.add(name)
                return
            path = folder

    def read_bytes(self, path: str, limit_bytes: int) -> bytes | None:
        """Return a file's bytes, or ``None``."""
        if path in self.replaced:
            return self.replaced[path]
        place = self._place(path)
        data = self._files[place].encode() if place is not None and place in self._files else None
        if data is not None and len(data) > limit_bytes:
            raise InputError(f"{self.root}/{path}", f"more than {limit_bytes} bytes", "a file made by the kernel")
        return data

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder in byte order, or nothing if there is no such folder."""
        place = self._place(path)
        found = self._inside.get(place, set()) if place is not None else set()
        if len(found) > MAX_ENTRIES:
            raise InputError(f"{self.root}/{path}", f"more than {MAX_ENTRIES} entries", "a kernel's folder")
        return tuple(sorted(found, key=os.fsencode))

    def exists(self, path: str) -> bool:
        """Return whether the path leads to something."""
        return self._place(path) is not None

    def is_folder(self, path: str) -> bool:
        """Return whether the path leads to a folder."""
        return self._place(path) in self._inside

    def resolved(self, path: str) -> Path | None:
        """Return ``None``: nothing of it is on this machine."""
        return None

    def _place(self, path: str) -> str | None:
        """Return a path without links in it; ``None``: there is nothing."""
        place, links = "", 0
        for part in path.strip("/").split("/"):
            place = f"{place}/{part}" if place else part
            while place in self._links:
                links += 1
                if links > MAX_LINKS:
                    return None
                place = self._links[place]
        return place if place in self._files or place in self._inside else None
