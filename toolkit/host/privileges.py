"""Whether we are root: checked before anything is changed, in one sentence for all."""

from __future__ import annotations

import os

from toolkit.errors import HostUnsupportedError


def require_root(what: str) -> None:
    """Check that the effective user is root. :param what: what needs it, as the beginning of a sentence.

    :raises HostUnsupportedError: it is another user.
    """
    if os.geteuid() != 0:
        raise HostUnsupportedError(f"{what} needs root: run it with sudo")
