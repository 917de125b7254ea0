"""What many rules ask of the same evidence: worked out once, and forgotten."""

from __future__ import annotations

import pytest

from validators.queries.memo import memo, memoised


def test_the_same_objects_are_asked_about_once() -> None:
    """Equal ones are others; outside of the block, and in the next, everything is worked out anew."""
    calls = list[tuple[int, ...]]()

    @memoised
    def total(values: tuple[int, ...]) -> int:
        calls.append(values)
        return sum(values)

    one, other = (1, 2), tuple(range(1, 3))
    assert (total(one), total(one), len(calls)) == (3, 3, 2)
    with memo():
        assert [total(one), total(one), total(other)] == [3, 3, 3]
        assert len(calls) == 4
        with memo():
            total(one)
        total(one)
        assert len(calls) == 5
    with memo():
        total(one)
    assert len(calls) == 6


def test_an_error_is_no_answer() -> None:
    """It is raised each time."""
    tries = list[int]()

    @memoised
    def fails(value: int) -> int:
        tries.append(value)
        raise ValueError(value)

    with memo():
        for _ in range(2):
            with pytest.raises(ValueError, match="7"):
                fails(7)
    assert tries == [7, 7]
