"""The rule ``checkpoint``: memory that is charged to another node than that of its blocks (F28)."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import examples
from tests.unit.validators.checkpoint_builder import memory, memory_verdict, table
from toolkit.allocation.admission import StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.memory.start import empty_machine, validate
from toolkit.allocation.memory.state import Block, MemoryState, NodeState
from toolkit.model.verdict import Outcome


def grouped(*reserved: int) -> MemoryState:
    """Three nodes of which 0 and 1 hold a block of 1,200 together, so much of it on each."""
    cells = ((0, 1), (0, 1), (2,))
    return MemoryState(
        nodes={
            node: NodeState(int(len(cells[node]) > 1), {"memory": table(taken)}, cells[node])
            for node, taken in enumerate(reserved)
        },
        entries={"u1": {"db": (Block((0, 1), "memory", 1200),)}},
    )


def test_memory_charged_to_another_node() -> None:
    """The sum over all nodes is right, and the block is on node 0, but node 1 pays for it."""
    wrong = memory(reserved=0)
    wrong.nodes[1].memory["memory"] = table(300)
    verdict = memory_verdict(wrong)

    assert verdict.outcome is Outcome.FAILED
    assert "0 bytes of memory are taken of node 0, the blocks on it sum up to 300" in verdict.reason
    assert "300 bytes of memory are taken of node 1, the blocks on it sum up to 0" in verdict.reason


@pytest.mark.parametrize(
    ("reserved", "outcome"),
    [((900, 300, 0), "passed"), ((300, 900, 0), "passed"), ((900, 200, 100), "failed"), ((0, 300, 900), "failed")],
)
def test_nodes_that_share_a_block_share_its_charge(reserved: tuple[int, ...], outcome: str) -> None:
    """Which of them pays depends on the order in which pods came and went; only their sum is determined."""
    assert memory_verdict(grouped(*reserved)).outcome.value == outcome


def test_a_node_that_counts_other_blocks() -> None:
    """A starting kubelet computes the number of assignments and the groups from the blocks, and compares."""
    counts, group = grouped(900, 300, 0), grouped(900, 300, 0)
    counts.nodes[2].assignments = 1
    group.nodes[2].cells = (1, 2)

    assert "node 2 counts 1 assignments, 0 blocks are on it" in memory_verdict(counts).reason
    assert "node 2 is in a group with 1-2" in memory_verdict(group).reason


MACHINE = Machine.from_vector(
    {
        "cpus": [[node, node, 0, node, None] for node in range(3)],
        "numa": [{"id": node, "memory": 1000, "distances": [10, 10, 10]} for node in range(3)],
    }
)
RESERVED = {node: {"memory": 100} for node in range(3)}
STEP = st.tuples(st.sampled_from("abcd"), st.sampled_from([(0,), (1,), (2,), (0, 1)]), st.integers(0, 900))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEP, max_size=6), st.permutations("abcd"), st.integers(0, 4), st.booleans())
def test_the_rule_and_a_restart_agree(
    steps: list[tuple[str, tuple[int, ...], int]], gone: list[str], number: int, move: bool
) -> None:
    """Pods come and go in any order, and perhaps a charge is moved to another node: the file passes exactly where the
    model of a starting kubelet takes it.
    """
    machine = MACHINE
    state = MemoryState(nodes=empty_machine(machine, RESERVED))
    for uid, numa, size in steps:
        block = Block(numa, "memory", size)
        fits = size <= sum(state.nodes[node].memory["memory"].free for node in numa)
        alone = all(state.nodes[node].cells == numa or not state.nodes[node].assignments for node in numa)
        if fits and alone and state.blocks(uid, "c") is None:
            state.take(numa, "memory", size)
            state.set_blocks(uid, "c", (block,))
    for uid in gone[:number]:
        blocks = state.blocks(uid, "c")
        if blocks is not None:
            state.delete(uid, "c")
            state.release(blocks)
    if move:
        taker, giver = state.nodes[2].memory["memory"], state.nodes[0].memory["memory"]
        part = min(giver.reserved, taker.free)
        giver.reserved, giver.free = giver.reserved - part, giver.free + part
        taker.reserved, taker.free = taker.reserved + part, taker.free - part
    verdict = memory_verdict(state)
    try:
        validate(deepcopy(state), machine, RESERVED, pod_level=False)
        expected = Outcome.PASSED
    except StartupError:
        expected = Outcome.FAILED
    assert verdict.outcome is expected, verdict.reason
