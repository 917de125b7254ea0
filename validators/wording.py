"""Words that reasons share, under the names that read best there; all are of :mod:`toolkit.model.wording`."""

from __future__ import annotations

from toolkit.model.wording import brief, clock, digits, listed, milliseconds, seconds, since_open
from toolkit.model.wording import count as plural

__all__ = ["brief", "clock", "digits", "listed", "milliseconds", "plural", "seconds", "since_open"]
