"""Recorded machines, unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, target: Path) -> None:
    """Unpack folders, files and links, content only: ``extractall`` also sets the mode and time of each."""
    for member in archive:
        place = target / member.name
        assert ".." not in place.parts
        if member.isdir():
            place.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            place.symlink_to(member.linkname)
        elif (content := archive.extractfile(member)) is not None:
            place.write_bytes(content.read())
