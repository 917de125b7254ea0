"""What is undecided is tried again, so often and no more; what is decided never is."""

from __future__ import annotations

import pytest

from toolkit.session.conformance import repeat_undecided


@pytest.mark.parametrize(
    ("outcomes", "repeats", "last", "thrown_away"),
    [
        (["busy", "busy", "passed", "x"], 2, "passed", ("busy", "busy")),
        (["busy", "busy", "passed"], 1, "busy", ("busy",)),
        (["busy", "passed"], 0, "busy", ()),
        (["failed", "passed"], 2, "failed", ()),
        (["busy", "failed", "passed"], 2, "failed", ("busy",)),
    ],
)
def test_only_what_is_undecided_is_repeated(
    outcomes: list[str], repeats: int, last: str, thrown_away: tuple[str, ...]
) -> None:
    """The last result counts; a failure ends it, also as the second."""
    left = iter(outcomes)

    found = repeat_undecided(lambda: next(left), lambda outcome: outcome if outcome == "busy" else None, repeats)
    assert found == (last, thrown_away)
