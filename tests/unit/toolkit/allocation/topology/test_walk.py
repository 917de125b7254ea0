"""Where the real merger crashes: the first pair of masks that it measures, not the pair that decides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from toolkit.allocation.admission import KubeletPanic
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.allocation.topology.manager import TopologyManager

GIB = 1 << 30


def manager(ids: Sequence[int], *, quirks: bool) -> TopologyManager:
    """``prefer-closest-numa-nodes`` on a machine with one CPU per NUMA node."""
    nodes = [{"id": i, "memory": GIB, "distances": [10 if i == j else 21 for j in ids]} for i in ids]
    shape = Machine.from_vector({"cpus": [[n, n, 0, i, None] for n, i in enumerate(ids)], "numa": nodes})
    return TopologyManager("best-effort", "container", {"prefer-closest-numa-nodes": "true"}, shape, quirks=quirks)


def hint(*nodes: int, preferred: bool = True) -> TopologyHint:
    """A hint for some nodes."""
    return TopologyHint(sum(1 << node for node in nodes), preferred)


@pytest.mark.parametrize(
    ("ids", "hints", "index"),
    [
        # Nodes 3 and 6 are measured first, and 3 is the index beyond the row of three; 6 and 11 never come to that.
        ((3, 6, 11), [hint(3), hint(6), hint(11)], 3),
        # The best hint is the only preferred one, but two others have been measured before it is seen.
        ((0, 6), [hint(0, preferred=False), hint(6, preferred=False), hint(0)], 6),
        # Above the number of nodes that are needed (here one, by the second resource) as below it.
        ((0, 5, 7), [hint(0, 5, preferred=False), hint(0, 7, preferred=False)], 5),
    ],
)
def test_the_first_pair_that_is_measured_crashes(ids: Sequence[int], hints: list[TopologyHint], index: int) -> None:
    """Source: kubernetes v1.36.2, topologymanager/policy.go (``compare``), numa_info.go (``Closest``)."""
    with pytest.raises(KubeletPanic, match=rf"index out of range \[{index}\] with length {len(ids)}"):
        manager(ids, quirks=True).merge([{"cpu": hints}, None])

    assert manager(ids, quirks=False).merge([{"cpu": hints}, None])[0].numa


@pytest.mark.parametrize(
    "hints",
    [
        [hint(8)],
        [hint(8), hint(0, 8)],
        [hint(0), hint(8, preferred=False)],
        [hint(8, preferred=False), hint(0)],
        [hint(8), hint(8)],
    ],
)
def test_masks_that_are_not_measured_do_no_harm(hints: list[TopologyHint]) -> None:
    """One mask, the same mask twice, more nodes than another, preferred against not preferred: nothing to measure."""
    real, sane = (manager((0, 8), quirks=quirks).merge([{"cpu": hints}, None]) for quirks in (True, False))

    assert real == sane


def test_distances_are_measured_where_ids_have_no_gap() -> None:
    """Without a gap the position is the id, and nothing crashes."""
    assert manager((0, 1), quirks=True).merge([{"cpu": [hint(0), hint(1)]}, None])[0] == hint(0)
