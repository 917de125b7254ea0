"""Hint merging against a walk over all permutations, the policies' admissions, and the options' messages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import examples
from toolkit.allocation.admission import KubeletPanic, StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.allocation.topology.manager import TopologyManager
from toolkit.allocation.topology.merge import _all_ands, collect, merge

GIB = 1 << 30


def machine(ids: Sequence[int] = (0, 1), distances: Sequence[Sequence[int]] | None = None) -> Machine:
    """One CPU per NUMA node."""
    cpus = [[i, i, 0, numa, None] for i, numa in enumerate(ids)]
    rows = distances or [[10 if a == b else 21 for b in ids] for a in ids]
    nodes = [{"id": numa, "memory": GIB, "distances": list(row)} for numa, row in zip(ids, rows, strict=True)]
    return Machine.from_vector({"cpus": cpus, "numa": nodes})


def walk(hints: Sequence[Sequence[TopologyHint]], everything: int) -> TopologyHint:
    """Merge the slow way: every permutation in turn, keeping the better of two hints by the documented rules."""
    target = max(
        (min((h.numa.bit_count() for h in r if h.numa is not None), default=0) for r in hints),
        default=0,
    )
    best: TopologyHint | None = None
    for permutation in itertools.product(*hints):
        named = [h.numa for h in permutation if h.numa is not None]
        mask = everything
        for numa in named:
            mask &= numa
        candidate = TopologyHint(mask, all(h.preferred for h in permutation) and len(set(named)) <= 1)
        if mask:
            best = candidate if best is None else better(best, candidate, target)
    return best or TopologyHint(everything, False)


def better(current: TopologyHint, candidate: TopologyHint, target: int) -> TopologyHint:
    """Choose between two merged hints, case by case."""
    assert current.numa is not None
    assert candidate.numa is not None
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    have, offer = current.numa.bit_count(), candidate.numa.bit_count()
    smaller = candidate if (offer, candidate.numa) < (have, current.numa) else current
    if current.preferred or have > target:
        return smaller
    if have == target:
        return smaller if offer == target else current
    if offer > target:
        return current
    return candidate if offer > have else current if offer < have else smaller


HINTS = st.lists(
    st.builds(TopologyHint, st.one_of(st.none(), st.integers(1, 15)), st.booleans()), min_size=1, max_size=5
)


@given(st.lists(HINTS, min_size=1, max_size=4))
@settings(max_examples=examples(200), deadline=None)
def test_merging_sets_equals_walking_permutations(hints: list[list[TopologyHint]]) -> None:
    """The short way gives the hint of the long way, for any hints."""
    assert merge(hints, 15, lambda mask: (mask,)) == walk(hints, 15)


@settings(deadline=None)
@given(st.sets(st.integers(1, 63), min_size=1), st.sets(st.integers(1, 63), min_size=1))
def test_the_transform_finds_exactly_the_pairwise_ands(left: set[int], right: set[int]) -> None:
    """The way taken for large sets gives what the plain loop gives."""
    expected = {a & b for a in left for b in right}

    gap = {mask << 40 | (mask & 1) for mask in left}, {mask << 40 | (mask & 1) for mask in right}

    assert {a & b for a in gap[0] for b in gap[1]} == _all_ands(*gap, 63 << 40 | 1)
    assert expected == _all_ands(left, right, 63)


def test_no_opinion_and_no_possibility() -> None:
    """A provider without hints does not mind; a resource with an empty list cannot be placed."""
    assert collect([None, {}, {"cpu": None}]) == [(TopologyHint(None, True),)] * 3
    assert collect([{"cpu": ()}]) == [(TopologyHint(None, False),)]


ONE, BOTH = TopologyHint(1, True), TopologyHint(3, False)


@pytest.mark.parametrize(
    ("policy", "hints", "merged", "admitted"),
    [
        ("best-effort", [{"cpu": [BOTH]}], BOTH, True),
        ("restricted", [{"cpu": [BOTH]}], BOTH, False),
        ("restricted", [{"cpu": [TopologyHint(3, True)]}], TopologyHint(3, True), True),
        ("single-numa-node", [{"cpu": [TopologyHint(3, True)]}], TopologyHint(None, False), False),
        ("single-numa-node", [{"cpu": [ONE, BOTH]}], ONE, True),
        ("single-numa-node", [None, None], TopologyHint(None, True), True),
        ("restricted", [None, None], TopologyHint(3, True), True),
        ("restricted", [{"cpu": ()}, None], TopologyHint(3, False), False),
        ("restricted", [{"cpu": [ONE]}, {"memory": [TopologyHint(2, True)]}], TopologyHint(3, False), False),
        (
            "restricted",
            [{"cpu": [ONE, TopologyHint(2, True)]}, {"memory": [TopologyHint(2, True)]}],
            TopologyHint(2, True),
            True,
        ),
    ],
)
def test_policies(policy: str, hints: list[object], merged: TopologyHint, admitted: bool) -> None:
    """What each policy makes of hints on a machine with two NUMA nodes."""
    manager = TopologyManager(policy, "container", {}, machine())

    assert manager.merge(hints) == (merged, admitted)  # type: ignore[arg-type]


def test_one_numa_node_leaves_no_affinity() -> None:
    """Under single-numa-node the hint for the only node is "no affinity"."""
    manager = TopologyManager("single-numa-node", "container", {}, machine((0,)))

    assert manager.merge([{"cpu": [ONE]}]) == (TopologyHint(None, True), True)


def test_prefer_closest_takes_the_nearer_pair() -> None:
    """Of two pairs of nodes the one with the shorter average distance wins, not the one with smaller ids."""
    table = [[10, 32, 32, 12], [32, 10, 12, 32], [32, 12, 10, 32], [12, 32, 32, 10]]
    pairs = {"cpu": [TopologyHint(0b0011, True), TopologyHint(0b0110, True)]}
    shape = machine((0, 1, 2, 3), table)
    plain = TopologyManager("best-effort", "container", {}, shape)
    closest = TopologyManager("best-effort", "container", {"prefer-closest-numa-nodes": "true"}, shape)

    assert plain.merge([pairs])[0].numa == 0b0011
    assert closest.merge([pairs])[0].numa == 0b0110


def test_ids_with_gaps_crash_the_real_component_only() -> None:
    """The defect is reproduced on request; otherwise the right distances are used."""
    options = {"prefer-closest-numa-nodes": "true"}
    hints = [{"cpu": [TopologyHint(1, True), TopologyHint(1 << 8, True)]}]
    sane = TopologyManager("best-effort", "container", options, machine((0, 8)))
    real = TopologyManager("best-effort", "container", options, machine((0, 8)), quirks=True)

    assert sane.merge(hints) == (TopologyHint(1, True), True)
    with pytest.raises(KubeletPanic, match=r"index out of range \[8\] with length 2"):
        real.merge(hints)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"no-such": "true"}, 'unknown Topology Manager Policy option: "no-such"'),
        (
            {"prefer-closest-numa-nodes": "maybe"},
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            {"max-allowable-numa-nodes": "many"},
            (
                'unable to convert policy option to integer "max-allowable-numa-nodes": '
                'strconv.Atoi: parsing "many": invalid syntax'
            ),
        ),
        (
            {"max-allowable-numa-nodes": "4"},
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        ),
    ],
)
def test_option_messages(options: dict[str, str], message: str) -> None:
    """Wrong options stop the start with the kubelet's words; under policy none they are not even read."""
    with pytest.raises(StartupError) as raised:
        TopologyManager("restricted", "container", options, machine())

    assert (raised.value.stage, raised.value.message) == ("topology-manager", message)
    TopologyManager("none", "container", options, machine())


def test_more_than_eight_nodes_need_the_option() -> None:
    """Nine nodes are refused unless max-allowable-numa-nodes allows them."""
    nine = machine(tuple(range(9)))

    with pytest.raises(StartupError, match="unsupported on machines with more than 8 NUMA Nodes"):
        TopologyManager("restricted", "pod", {}, nine)
    TopologyManager("restricted", "pod", {"max-allowable-numa-nodes": "9"}, nine)
    TopologyManager("none", "pod", {}, nine)
