"""What the plugin and the suite note of a test, for the session's end: did it judge something, or does it not fit?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import pytest

ALLOW_UNFIT = "--pinproof-allow-unfit"
UNFIT, JUDGED = "unfit", "judged"
NOTE = "pinproof"
"""Under this name a report carries the note: to the process that counts, and into JUnit's XML."""


def note(node: pytest.Item, what: str) -> None:
    """Note of a test that it judged something, or that this machine cannot run it."""
    node.user_properties.append((NOTE, what))


def skip_unfit(node: pytest.Item, reason: str) -> NoReturn:
    """Skip a test that does not fit this machine; a session in which nothing else judges is red, if not allowed."""
    import pytest

    note(node, UNFIT)
    pytest.skip(reason)


def in_words_of_pytest(reason: str) -> str:
    """Return what the command line would say with the plugin's names of the options."""
    return re.sub(r"(?<![-\w])--(full|runtime|on-live-node)\b", r"--pinproof-\1", reason)
