"""How much two groups of repeats differ, and how sure that is. The only module that needs numpy and scipy.

The shift is Hodges and Lehmann's: the median of all differences between a value of the one and a value of the other
(of pairs: of all means of two differences), which one wild value does not move. Its interval is that of a bootstrap
with a fixed seed: the same values give the same answer on every machine. Whether the shift is beyond the smallest
effect is asked by Welch's test, one-sided, of values that are moved by that effect.
Source: Hodges, Lehmann, "Estimates of location based on rank tests" (1963); Welch, "The generalization of Student's
problem" (1947); Efron, Tibshirani, "An introduction to the bootstrap" (1993), ch. 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolkit.errors import HostUnsupportedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 20_261_129
NO_SPREAD = 1e-9
"""Of the values: less is how floating-point numbers are rounded."""
MAX_PAIRS = 60
"""Of a side's values that the differences are taken of, at most; of more, the groups' medians are compared."""


def _libraries() -> tuple[Any, Any]:
    """Return numpy and scipy.stats: of those that compare repeats, never of a node.

    :raises HostUnsupportedError: they are not installed.
    """
    try:
        import numpy
        from scipy import stats
    except ImportError as error:
        raise HostUnsupportedError(
            f"{error.name or 'scipy'} is not installed: measures of several repeats are compared with numpy and scipy: "
            "pip install 'pinproof[gate]'"
        ) from None
    return numpy, stats


def _differences(base: Values, new: Values) -> Values:
    """Return the Hodges-Lehmann shift of each row. :param base, new: rows of values."""
    np, _ = _libraries()
    if max(base.shape[1], new.shape[1]) > MAX_PAIRS:
        simple: Values = np.median(new, axis=1) - np.median(base, axis=1)
        return simple
    every = new[:, :, None] - base[:, None, :]
    found: Values = np.median(every.reshape(len(every), -1), axis=1)
    return found


def _walsh(differences: Values) -> Values:
    """Return the Hodges-Lehmann location of each row of differences of pairs."""
    np, _ = _libraries()
    number = differences.shape[1]
    if number > MAX_PAIRS:
        simple: Values = np.median(differences, axis=1)
        return simple
    first, second = np.triu_indices(number)
    found: Values = np.median((differences[:, first] + differences[:, second]) / 2, axis=1)
    return found


def shift(base: Sequence[float], new: Sequence[float]) -> float:
    """Return by how much ``new`` lies above ``base``. :param base: empty: ``new`` are differences of pairs."""
    np, _ = _libraries()
    after = np.array([new], dtype=float)
    return float((_differences(np.array([base], dtype=float), after) if base else _walsh(after))[0])


def interval(base: Sequence[float], new: Sequence[float]) -> tuple[float, float]:
    """Return the bootstrap interval of :func:`shift`."""
    np, _ = _libraries()
    random = np.random.default_rng(SEED)

    def drawn(values: Sequence[float]) -> Values:
        made = np.array(values, dtype=float)
        resampled: Values = made[random.integers(0, len(made), size=(RESAMPLES, len(made)))]
        return resampled

    shifts = _differences(drawn(base), drawn(new)) if base else _walsh(drawn(new))
    low, high = np.quantile(shifts, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def beyond(base: Sequence[float], new: Sequence[float], effect: float) -> float:
    """Return the probability of such values if the shift were no more than an effect.

    :param effect: signed: of a positive one a shift above it is asked for, of a negative one below it.
    """
    np, stats = _libraries()
    sign = 1.0 if effect >= 0 else -1.0
    after = sign * np.array(new, dtype=float) - abs(effect)
    before = sign * np.array(base, dtype=float)
    distance = after.mean() - (before.mean() if base else 0.0)
    if distance <= 0:
        return 1.0  # not beyond it: more likely than not, whatever the test would say exactly
    scale = max(abs(after).max(), abs(before).max() if base else 0.0)
    if after.std() <= scale * NO_SPREAD and (not base or before.std() <= scale * NO_SPREAD):
        return 0.0  # values without any spread: the test divides by it, and there is nothing to be in doubt about
    if base:
        return float(stats.ttest_ind(after, before, equal_var=False, alternative="greater").pvalue)
    return float(stats.ttest_1samp(after, 0.0, alternative="greater").pvalue)
