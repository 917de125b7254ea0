"""Statistics that need no library: Fisher's exact test, the false discovery rate, and distances by the median.

They run where pinproof runs, so neither numpy nor scipy is asked for. All are exact, or say what they assume.
Source: R. A. Fisher, Statistical Methods for Research Workers (1934), 21.02; Y. Benjamini, Y. Hochberg, J. R. Stat.
Soc. B 57 (1995) 289; B. Iglewicz, D. Hoaglin, How to Detect and Handle Outliers (1993), the modified z-score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

_EQUAL = 1 + 1e-7
"""Tables whose probabilities differ by less are equally likely: as R's ``fisher.test`` takes them."""
MAD_TO_SIGMA = 0.6745
"""Median absolute deviation of a normal distribution, in standard deviations."""
MEAN_TO_SIGMA = 0.7979
"""Mean absolute deviation of one: the square root of 2/pi."""
SMALLEST_Z = 3.5
"""Iglewicz and Hoaglin's: less is not called an outlier."""


def fisher(bad_with: int, bad_without: int, good_with: int, good_without: int) -> float:
    """Return the two-sided probability of a table as uneven as this one, where the fact says nothing about the node."""
    bad, good, having = bad_with + bad_without, good_with + good_without, bad_with + good_with
    lowest, highest = max(0, having - good), min(having, bad)
    here = _log_choose(bad, bad_with) + _log_choose(good, good_with)
    found = [_log_choose(bad, k) + _log_choose(good, having - k) for k in range(lowest, highest + 1)]
    top = max(found)
    limit = here + math.log(_EQUAL)
    total = math.fsum(math.exp(one - top) for one in found)
    return min(1.0, math.fsum(math.exp(one - top) for one in found if one <= limit) / total)


def _log_choose(of: int, number: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(number + 1) - math.lgamma(of - number + 1)


def false_discovery(values: Sequence[float]) -> list[float]:
    """Return for each p the smallest rate of false discoveries at which it is one (Benjamini and Hochberg's q)."""
    order = sorted(range(len(values)), key=values.__getitem__, reverse=True)
    found, least = [1.0] * len(values), 1.0
    for place, index in enumerate(order):
        least = min(least, values[index] * len(values) / (len(values) - place))
        found[index] = least
    return found


def median(ordered: Sequence[float]) -> float:
    """Return the median of values in order."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def spread(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the median of values in order, and their standard deviation as the distances from it suggest.

    Where more than half are equal the mean distance stands for the median one; 0: all are.
    """
    centre = median(ordered)
    distances = sorted(abs(value - centre) for value in ordered)
    typical = median(distances) / MAD_TO_SIGMA
    return centre, typical or math.fsum(distances) / len(distances) / MEAN_TO_SIGMA


def z_limit(looked_at: int) -> float:
    """Return the distance that one of so many normally distributed values exceeds in one answer of twenty.

    Never less than :data:`SMALLEST_Z`.
    """
    return max(SMALLEST_Z, NormalDist().inv_cdf(1 - 0.025 / max(1, looked_at)))
