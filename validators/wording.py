"""Words that reasons share, under the names that read best there; all are of :mod:`toolkit.text.wording`."""

from __future__ import annotations

from toolkit.text.wording import brief, clock, digits, listed, milliseconds, moment, seconds, since_open
from toolkit.text.wording import count as plural

UNBOUND = (
    "its threads' masks alone bind them, each a moment after it is in the cgroup; "
    "whether these were bound then is not known"
)

__all__ = ["UNBOUND", "brief", "clock", "digits", "listed", "milliseconds", "moment", "plural", "seconds", "since_open"]
