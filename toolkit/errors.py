"""The exceptions that users can meet.

::

    PinproofError              exit code
    ├── InputError             2   a file, an option or a value is wrong
    ├── HostUnsupportedError   4   this host lacks something that the verb needs
    └── ApplyError             4   the kernel refused a change that the plan asked for

A failed check is never an exception: it is a :class:`toolkit.model.verdict.Verdict`.
"""

from __future__ import annotations

EXIT_CODES = {
    0: "everything passed, or was skipped",
    1: "something failed",
    2: "wrong usage or input: an option, a file or a value",
    3: "nothing failed, something is undecided",
    4: "this host cannot run it; the message names what is missing",
    70: "a defect of pinproof, not a result about the machine",
    129: "ended early by SIGHUP",
    130: "ended early by SIGINT",
    141: "standard output was closed",
    143: "ended early by SIGTERM",
}
"""Exit code -> what it means, for every verb."""


class PinproofError(Exception):
    """Base of all errors that end a verb with one clear line."""

    exit_code = 2


FOUND_CHARACTERS = 600
"""As much of a wrong value as helps to find it; the kubelet's longest messages are shorter."""


class InputError(PinproofError):
    """The user's input cannot be used; the message says where, what was found and what was expected.

    ``found`` and ``expected`` hold the two, for a reader that knows the place better.
    """

    exit_code = 2

    def __init__(self, where: str, found: str, expected: str = "") -> None:
        """Compose ``where: found; expected ...``; a stranger's flood is cut.

        All but ``where`` is put on one line. A file's name keeps its line ends: they are part of it, and spelt where
        the message is printed.
        """
        if len(found) > FOUND_CHARACTERS:
            found = f"{found[:FOUND_CHARACTERS]}… ({len(found)} characters)"
        self.found, self.expected = found, expected
        text = found + (f"; expected {expected}" if expected else "")
        super().__init__(f"{where}: {' '.join(text.split())}")


class HostUnsupportedError(PinproofError):
    """This host cannot run the verb; the message says what is missing and how to get it."""

    exit_code = 4


class ApplyError(PinproofError):
    """The kernel or the runtime refused a change; everything made so far has been undone."""

    exit_code = 4
