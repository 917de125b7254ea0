"""What stands at a path, as far as the caller may see it: an answer, never an exception.

``Path.is_dir()`` and its like raise PermissionError below a directory of mode 0700 (every Python before 3.14), and so
end a verb of an ordinary user on the first one: tracefs and debugfs are mounted 0700, folders of kubelets and runtimes
often are. What cannot be seen is not there for the caller; what must tell the two apart asks for the reason. Nothing
here helps where an error is reported anyway: open the file, and report why it cannot be opened.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def _mode(path: Path | str) -> int:
    """Return the mode behind links; 0: nothing that can be seen. A name that no file can have is none, too."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 takes what is no Path
    except (OSError, ValueError):
        return 0


def exists(path: Path | str) -> bool:
    """Return whether something can be seen there; a link that leads nowhere is nothing."""
    return _mode(path) != 0


def is_dir(path: Path | str) -> bool:
    """Return whether a directory can be seen there."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path | str) -> bool:
    """Return whether a regular file can be seen there."""
    return stat.S_ISREG(_mode(path))


def is_socket(path: Path | str) -> bool:
    """Return whether a socket can be seen there."""
    return stat.S_ISSOCK(_mode(path))


def is_hidden(path: Path | str) -> bool:
    """Return whether the caller may not see if something is there."""
    try:
        os.stat(path)  # noqa: PTH116 as above
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return False


def why_no_directory(path: Path) -> str:
    """Return why no directory can be seen there, in words: there is none, something else, or no permission."""
    try:
        os.stat(path)  # noqa: PTH116 as above
    except FileNotFoundError:
        return "not a directory" if os.path.islink(path) else "no such directory"  # noqa: PTH114 as above
    except OSError as error:
        return "not a directory" if error.errno == errno.ENOTDIR else error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return "not a directory"


def below(path: Path, pattern: str) -> list[Path]:
    """Return what matches a pattern below a directory, in order; nothing where that cannot be seen."""
    try:
        return sorted(path.glob(pattern))
    except OSError:
        return []
