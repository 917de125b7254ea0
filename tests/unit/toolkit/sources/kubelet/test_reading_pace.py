"""How often a kubelet's node is read: by what a reading costs, and sooner where no answer came."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.toolkit.sources.kubelet.followed_node import Node
from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.sources.kubelet.follow import EVERY_MAX_S, RETRY_MAX_S, ReadingPace
from toolkit.sources.live_source import EVERY_S, SourceReading
from validators.credibility.trust import FOLLOW_GAP_NS

ANSWERED = SourceReading(claims=ClaimSet(claims=()))


@pytest.mark.parametrize(("cost_s", "every_s"), [(0.001, EVERY_S), (0.012, 4.8), (1.0, EVERY_MAX_S)])
def test_a_node_that_is_costly_to_read_is_read_more_seldom(cost_s: float, every_s: float) -> None:
    """One part in 400 of a CPU, but once in a reconcile period at least; another time that is asked for is kept."""
    pace, asked = ReadingPace(EVERY_S), ReadingPace(1.0)
    assert pace.every_s == EVERY_S
    pace.cost_s = asked.cost_s = cost_s
    assert pace.every_s == pytest.approx(every_s)
    assert asked.every_s == 1.0


def test_what_was_not_answered_is_asked_for_again_soon() -> None:
    """The readings beside one that failed at once, or was not answered, leave their window decided."""
    pace = ReadingPace(EVERY_S)
    answers = iter((ANSWERED, replace(ANSWERED, complete=False)))

    def read() -> SourceReading:
        try:
            return next(answers)
        except StopIteration:
            raise InputError("/", "nothing", "a kubelet's node") from None

    paces = []
    for _ in range(2):
        pace.take(read)
        pace.cost_s = 1.0
        paces.append(pace.every_s)
    with pytest.raises(InputError):
        pace.take(read)
    pace.cost_s = 1.0

    assert [*paces, pace.every_s] == [EVERY_MAX_S, RETRY_MAX_S, RETRY_MAX_S]
    assert EVERY_MAX_S + RETRY_MAX_S < FOLLOW_GAP_NS / 1e9


def test_a_followed_node_is_read_at_this_pace(node: Node) -> None:
    """What a reading of a real source cost is known after it."""
    assert node.source.every_s == EVERY_S
    assert node.read().complete
    assert node.source._pace.cost_s > 0
    node.source._pace.cost_s = 0.02
    assert node.source.every_s == pytest.approx(8.0)
