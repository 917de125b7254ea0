"""Numbers and kinds of values in sentences."""

from __future__ import annotations

import pytest

from toolkit.model.cpuset import CpuSet, cpus_do, cpus_text, nodes_text
from toolkit.text.wording import (
    and_more,
    brief,
    clock,
    digits,
    first_lines,
    first_of,
    kind_of,
    milliseconds,
    since_open,
)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "nothing"),
        (True, "a boolean"),
        (7, "a number"),
        (0.5, "a number"),
        ("7", "text"),
        ([], "a list"),
        ({}, "a mapping"),
    ],
)
def test_values_of_documents_have_names(value: object, name: str) -> None:
    """No message names a class of Python."""
    assert kind_of(value) == name


def test_one_or_several() -> None:
    """A set of one CPU or node is singular."""
    assert [cpus_text("1"), cpus_text(CpuSet.of([2, 3]))] == ["CPU 1", "CPUs 2-3"]
    assert cpus_do(CpuSet.of([7]), "is", "are") == "CPU 7 is"
    assert cpus_do(CpuSet.of([2, 3]), "is", "are", " of a") == "CPUs 2-3 of a are"
    assert [nodes_text("1"), nodes_text(CpuSet.of([0, 1]))] == ["node 1", "nodes 0-1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1e-6, "0.000001"),
        (0.25, "0.25"),
        (12.34, "12.3"),
        (99.96, "100"),
        (3210, "3210"),
        (9_999_999, "9999999"),
    ],
)
def test_no_number_has_an_exponent(value: float, text: str) -> None:
    """Three digits, or all before the point: never ``3.21e+03``."""
    assert digits(value) == text


def test_lengths_of_time() -> None:
    """In milliseconds; what is too short for them is not written as none."""
    assert [brief(ns) for ns in (3_210_000_000, 250_000, 4_500, 1)] == ["3210 ms", "0.25 ms", "4.5 us", "0.001 us"]
    assert [milliseconds(ns) for ns in (3_210_000_000, 49_999, 0)] == ["3210.0 ms", "50 us", "0 us"]


def test_no_time_is_negative() -> None:
    """What was before the window was so long before it."""
    assert [since_open(ns) for ns in (2_250_000_000, -31_500_000_000)] == ["at 2.250 s", "31.5 s before the window"]


def test_a_moment_on_the_wall_clock() -> None:
    """From the window's opening on, to the millisecond; of another day with its date; without a window nothing."""
    opened = "2026-11-22T23:59:58.999500+00:00"

    assert clock(opened, 0) == "23:59:58.999 UTC"
    assert clock(opened, 500_000) == "23:59:59.000 UTC"
    assert clock(opened, 2_000_000_000) == "2026-11-23 00:00:00.999 UTC"
    assert clock("2026-11-22T12:00:00+02:00", -1) == "11:59:59.999 +0200"
    assert [clock(text, 0) for text in ("", "2026-11-22T12:00:00")] == ["", ""]


def test_the_first_of_many_are_named_and_the_others_counted() -> None:
    """In a sentence, behind one that stands for all, and as a line of its own; nothing where all are named."""
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert first_of(["a", "b", "c"], 1, "; ") == "a and 2 more"
    assert first_of([], 1) == ""
    assert (and_more(3), and_more(2, "threads"), and_more(2, aside=True)) == (
        " and 3 more",
        " and 2 more threads",
        " (and 2 more)",
    )
    assert (and_more(0), and_more(-1, aside=True)) == ("", "")
    assert first_lines(["a", "b", "c"], 2, "(--json)") == ["a", "b", "and 1 more (--json)"]
    assert (first_lines(["a", "b", "c"], 1), first_lines(["a"], 1)) == (["a", "and 2 more"], ["a"])
