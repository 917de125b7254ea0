"""A read-only window on a tree of small kernel files: this machine's ``/``, or an unpacked dump of another one's.

A dump comes from elsewhere, so nothing in it is trusted: links are followed one component at a time and stay inside the
tree (an absolute target starts at the tree's root, as in chroot), only regular files of bounded size are opened, and
folders are never walked, only listed. What is missing or unreadable is ``None``; what exists but makes no sense is
noted in :attr:`SysTree.problems` and treated as missing. Not a parser of any particular file.

Source: path_resolution(7); openat2(2), RESOLVE_IN_ROOT, for the meaning of "inside".
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from toolkit.errors import InputError
from toolkit.model.cpuset import MAX_ID, CpuSet
from toolkit.regular_file import regular_descriptor
from toolkit.text import names

ATTRIBUTE_BYTES = 64 * 1024
"""Longest attribute read: a page, or the CPU map of the largest kernel (NR_CPUS 8192: 20 kB as a list)."""
PROC_BYTES = 16 * 1024 * 1024
"""Longest /proc file read: cpuinfo needs about 2 kB per CPU."""
MAX_LINKS = 40
"""The kernel's own limit (MAXSYMLINKS)."""
MAX_ENTRIES = 100_000
MAX_PROBLEMS = 100

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)


class SysTree:
    """Reads files below one root; paths are relative to it, with ``/`` between the parts."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = str(root.absolute()).rstrip("/")
        self.problems: list[str] = []
        self.replaced: dict[str, bytes] = {}
        """Files that are read as if they said this."""
        self._folders: dict[str, tuple[str, ...] | None] = {"": ()}

    @property
    def live(self) -> bool:
        """Whether this is the running machine's own tree."""
        return self.root == ""

    def read(self, path: str, limit_bytes: int = ATTRIBUTE_BYTES) -> str | None:
        """Return the file's text without white space around it, or ``None`` if there is no such readable file.

        NUL bytes go too: RHEL 7's kernel ends ``nohz_full`` with one.

        :raises InputError: the file is larger than any kernel would make it.
        """
        data = self.read_bytes(path, limit_bytes)
        return None if data is None else data.decode("utf-8", "replace").strip("\0 \t\r\n\v\f")

    def name(self, path: str) -> str | None:
        """Return a one-line file's text as :mod:`toolkit.text.names` spells it: one that is shown, not understood."""
        data = self.read_bytes(path, ATTRIBUTE_BYTES)
        return None if data is None else names.shown(data.strip(b"\0 \t\r\n\v\f"))

    def read_bytes(self, path: str, limit_bytes: int) -> bytes | None:
        """Return the file's bytes, or ``None``; see :meth:`read`."""
        if path in self.replaced:
            return self.replaced[path]
        place = self._place(path)
        if place is None:
            return None
        try:
            # Opening a device can have effects: look before.
            if not stat.S_ISREG(os.lstat(place).st_mode):
                return None
            with os.fdopen(regular_descriptor(place), "rb") as file:
                data = file.read(limit_bytes + 1)
        except OSError:
            return None
        if len(data) > limit_bytes:
            raise InputError(f"{self.root}/{path}", f"more than {limit_bytes} bytes", "a file made by the kernel")
        return data

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder in byte order, or nothing if there is no such readable folder."""
        place = self._place(path)
        if place is None:
            return ()
        found = []
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) > MAX_ENTRIES:
                        raise InputError(f"{self.root}/{path}", f"more than {MAX_ENTRIES} entries", "a kernel's folder")
        except OSError:
            return ()
        return tuple(sorted(found, key=os.fsencode))

    def numbered(self, path: str, prefix: str) -> tuple[int, ...]:
        """Return the numbers N of the entries ``<prefix>N`` of a folder, ascending."""
        pattern = re.compile(re.escape(prefix) + r"(0|[1-9]\d{0,5})", re.ASCII)
        matches = (pattern.fullmatch(name) for name in self.names(path))
        return tuple(sorted(number for match in matches if match and (number := int(match[1])) <= MAX_ID))

    def exists(self, path: str) -> bool:
        """Return whether the path leads to something inside the tree."""
        place = self._place(path)
        return place is not None and os.path.lexists(place)

    def is_folder(self, path: str) -> bool:
        """Return whether the path leads to a folder inside the tree."""
        place = self._place(path)
        return place is not None and os.path.isdir(place) and not os.path.islink(place)  # noqa: PTH112, PTH114

    def resolved(self, path: str) -> Path | None:
        """Return where a path leads on this machine, with no link left in it; ``None``: to nothing."""
        place = self._place(path)
        return None if place is None else Path(place)

    def integer(self, path: str) -> int | None:
        """Read a file that holds one decimal number."""
        text = self.read(path)
        if text is None:
            return None
        if _INTEGER.fullmatch(text):
            return int(text)
        self._nonsense(path, text, "a number")
        return None

    def cpu_map(self, path: str) -> CpuSet | None:
        """Read a file in the mask format (``ff,ffffffff``)."""
        text = self.read(path)
        try:
            return None if text is None else CpuSet.parse_mask(text)
        except InputError:
            self._nonsense(path, text or "", "a CPU mask")
            return None

    def cpu_list(self, path: str) -> CpuSet | None:
        """Read a file in the list format; the kernel's ``(null)`` for a mask that was never allocated is empty."""
        text = self.read(path)
        if text == "(null)":
            return CpuSet()
        try:
            return None if text is None else CpuSet.parse(text)
        except InputError:
            self._nonsense(path, text or "", "a CPU list")
            return None

    def cpus(self, *stems: str) -> CpuSet | None:
        """Read the first of several files that exists: per stem the map, then ``<stem>_list``."""
        for stem in stems:
            found = self.cpu_map(stem)
            if found is None:
                found = self.cpu_list(f"{stem}_list")
            if found is not None:
                return found
        return None

    def note(self, path: str, text: str) -> None:
        """Remember that a file makes no sense."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(names.printable(f"{path}: {text}"))

    def _nonsense(self, path: str, text: str, expected: str) -> None:
        self.note(path, f"{text[:40]!r} is not {expected}; ignored")

    def _place(self, path: str) -> str | None:
        """Return the host path of ``path`` with no link left in it, or ``None``."""
        folder, _, name = path.strip("/").rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self._follow((), folder)
        parts = self._folders[folder]
        if parts is not None:
            parts = self._follow(parts, name)
        return None if parts is None else "/".join((self.root, *parts)) or "/"

    def _follow(self, start: tuple[str, ...], path: str) -> tuple[str, ...] | None:
        """Resolve ``path`` from the link-free folder ``start``; ``..`` stops at the root."""
        current = list(start)
        pending = path.split("/")[::-1]
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del current[-1:]
                continue
            current.append(part)
            try:
                target = os.readlink("/".join((self.root, *current)))  # noqa: PTH115
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno == errno.EINVAL:
                    continue  # not a link
                return None
            links += 1
            if links > MAX_LINKS:
                return None
            del current[0 if target.startswith("/") else -1 :]
            pending.extend(target.split("/")[::-1])
        return tuple(current)
