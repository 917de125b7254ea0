"""Unpack an archive that a node made: nothing in it is trusted."""

from __future__ import annotations

import io
import os
import tarfile


def unpack(data: bytes, folder: str, most_bytes: int) -> list[str]:
    """Write the plain files of a compressed archive below a new folder; return what was left out, and why.

    The files get the controller's owner, mode 0600, and names below the folder; folders mode 0700. No link, no device,
    no name that leads elsewhere, and no more than ``most_bytes`` in all.

    :raises ValueError: it is no archive, or unpacks to more.
    """
    left_out = []
    written = 0
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                parts = member.name.split("/")
                if not member.isreg() or member.name.startswith("/") or ".." in parts or "\0" in member.name:
                    left_out.append(f"{member.name!r}: no plain file below the folder")
                    continue
                written += member.size
                if written > most_bytes:
                    raise ValueError(f"it unpacks to more than {most_bytes} bytes")
                _write(archive, member, os.path.join(folder, *[part for part in parts if part not in ("", ".")]))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    return left_out


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None
    # A name that comes twice is a stranger's trick, not evidence: the first stays.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with source, os.fdopen(handle, "wb") as target:
        while piece := source.read(1 << 20):
            target.write(piece)
