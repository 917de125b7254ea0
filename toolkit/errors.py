"""The exceptions that users can meet.

::

    PinproofError              exit code
    ├── InputError             2   a file, an option or a value is wrong
    ├── HostUnsupportedError   4   this host lacks something that the verb needs
    └── ApplyError             4   the kernel refused a change that the plan asked for

A failed check is never an exception: it is a :class:`toolkit.model.verdict.Verdict`.
"""

from __future__ import annotations


class PinproofError(Exception):
    """Base of all errors that end a verb with one clear line."""

    exit_code = 2


class InputError(PinproofError):
    """The user's input cannot be used; the message says where, what was found and what was expected."""

    exit_code = 2

    def __init__(self, where: str, found: str, expected: str = "") -> None:
        """Compose ``where: found; expected ...`` on one line."""
        text = f"{where}: {found}" + (f"; expected {expected}" if expected else "")
        super().__init__(" ".join(text.split()))


class HostUnsupportedError(PinproofError):
    """This host cannot run the verb; the message says what is missing and how to get it."""

    exit_code = 4


class ApplyError(PinproofError):
    """The kernel or the runtime refused a change; everything made so far has been undone."""

    exit_code = 4
