"""Which files a kubelet's configuration is made of, and whether the one that runs may have read what they say now."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.file_birth import born_s
from toolkit.sources.kubelet.bundle import MAIN_CONFIG
from toolkit.sources.kubelet.configuration import drop_ins
from toolkit.text.names import shown

READS_WITHIN_S = 60.0
"""From a kubelet's start. It reads them once, in its first second; but a script that writes them and becomes the
kubelet (``exec``) has the start of the script.
"""

EDITED = (
    "written, or put in its place, after the kubelet had started and read it; "
    "what it runs with is not known until it restarts"
)


def named(main: Path | None, folder: Path | None) -> tuple[dict[str, Path], str]:
    """Return the files by their names in a capture, in the order in which they count; and what is wrong with a folder.

    :param main: of ``--config``, or where it is by default. :param folder: of ``--config-dir``.
    """
    found, problem = {} if main is None else {MAIN_CONFIG: main}, ""
    try:
        if folder is not None:
            inside = {shown(os.fsencode(path.relative_to(folder))): path for path in drop_ins(folder)}
            found |= {f"kubelet/config.d/{name}": path for name, path in inside.items()}
    except InputError as error:
        problem = str(error)
    return found, problem


def edited(paths: Iterable[Path | None], started_s: float | None) -> Path | None:
    """Return one that was written since the kubelet has read it, if any: it runs with what was there before.

    A file that was put in the place of another may have kept its time of writing (``cp -p``, ``rsync -a``, a package):
    when it was made counts, too, where its file system says. One that is overwritten and given its old time again
    cannot be told from one whose mode was changed.

    :param paths: the files, and their folder, which is written to when one of them comes, goes or is renamed.
    :param started_s: when the kubelet started, by the clock that dates files; ``None``: not known, as is what it read.
    """
    if started_s is None:
        return None
    for path in paths:
        with suppress(OSError):
            if path is None:
                continue
            found = path.stat()
            made_s = born_s(path) if stat.S_ISREG(found.st_mode) else None
            if max(found.st_mtime, made_s or 0.0) > started_s + READS_WITHIN_S:
                return path
    return None
