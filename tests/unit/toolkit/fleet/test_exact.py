"""Fisher's test, rates of false discoveries and robust distances, held to published numbers and to counting."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from toolkit.fleet.exact import false_discovery, fisher, spread, z_limit


@pytest.mark.parametrize(
    ("table", "p"),
    [
        ((3, 1, 1, 3), 34 / 70),  # Fisher's lady, two-sided
        ((10, 2, 3, 15), 0.0005367241),  # R: fisher.test(matrix(c(10,2,3,15), 2))
        ((0, 5, 5, 0), 2 / math.comb(10, 5)),
        ((0, 7, 0, 9), 1.0),
        ((4, 0, 0, 0), 1.0),
    ],
)
def test_fisher_is_exact(table: tuple[int, int, int, int], p: float) -> None:
    """Against published values."""
    assert fisher(*table) == pytest.approx(p, rel=1e-6)


def test_fisher_agrees_with_counting() -> None:
    """Of all ways in which the fact could have been dealt to the nodes, those that are no likelier than this one."""
    for bad_with, bad, having, every in itertools.product(range(4), (3,), range(1, 7), (8,)):
        if not max(0, having - (every - bad)) <= bad_with <= min(having, bad):
            continue
        ways = {k: math.comb(bad, k) * math.comb(every - bad, having - k) for k in range(min(bad, having) + 1)}
        expected = sum(w for w in ways.values() if w <= ways[bad_with]) / sum(ways.values())
        found = fisher(bad_with, bad - bad_with, having - bad_with, every - bad - having + bad_with)
        assert found == pytest.approx(expected)


def test_fisher_of_a_fleet_does_not_underflow() -> None:
    """Ten thousand nodes, a fact that says all."""
    assert 0 <= fisher(5000, 0, 0, 5000) < 1e-300
    assert fisher(2500, 2500, 2500, 2500) == pytest.approx(1.0)


def test_rate_of_false_discoveries() -> None:
    """The example of Benjamini and Hochberg: of fifteen hypotheses four are found at a rate of 0.05."""
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1.0,
    ]

    q = false_discovery(p)

    assert sum(one <= 0.05 for one in q) == 4
    assert q == sorted(q)
    assert false_discovery(list(reversed(p))) == list(reversed(q))
    assert false_discovery([]) == []


def test_by_chance_hardly_a_fleet_has_an_outlier() -> None:
    """Of forty healthy fleets of normal measures at most five name one node, at the stated one in twenty."""
    named, numbers = 0, random.Random(7)
    for _ in range(40):
        values = sorted(numbers.gauss(100, 5) for _ in range(400))
        centre, typical = spread(values)
        named += any(abs(value - centre) / typical > z_limit(len(values)) for value in values)
    assert named <= 5


def test_spread_of_values_that_are_mostly_equal() -> None:
    """The mean distance stands for a median of none; of values that are all equal there is none."""
    assert spread([1.0] * 9) == (1.0, 0.0)
    centre, typical = spread([1.0] * 9 + [11.0])
    assert centre == 1.0
    assert typical > 0
