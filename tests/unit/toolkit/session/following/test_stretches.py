"""Readings in a row, cut into windows: one stretch by itself, which most claims have, is cut as among others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolkit.model.layers import Layer, LayerView
from toolkit.session.following.stretches import Stretch, of_window

VIEW = LayerView(claim="db", layer=Layer.CHECKPOINT, at_ns=0)
TIMES = st.integers(min_value=0, max_value=30)


@given(TIMES, TIMES, TIMES, TIMES, st.none() | TIMES, st.sampled_from([0, 5]))
def test_one_stretch_is_cut_as_among_others(
    first_ns: int, lasts_ns: int, start_ns: int, length_ns: int, old_ns: int | None, after_ns: int
) -> None:
    """One that was over long before changes nothing; what begins after the window is not in it."""
    end_ns = start_ns + length_ns
    one = Stretch(VIEW, first_ns, first_ns + lasts_ns)
    alone = of_window([one], start_ns, end_ns, after_ns, old_ns)

    if first_ns > end_ns:
        assert alone == []
    else:
        over = Stretch(VIEW, -1000, -900)
        assert alone == of_window([over, one], start_ns, end_ns, after_ns, old_ns)
        assert all(view.at_ns <= length_ns for view in alone)
