"""The CPU Manager's topology hints: which combinations of nodes, and which of them are preferred."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.allocation.static_policy import (
    FOUR_NODES,
    container,
    pod,
    policy,
)
from toolkit.allocation.cpu.hints import cpu_hints
from toolkit.allocation.cpu.options.switched_on import CpuPolicyOptions
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet


def test_hints_name_every_sufficient_combination() -> None:
    """Combinations with enough free CPUs, small ones first; preferred if as small as on an empty machine."""
    hints = cpu_hints(FOUR_NODES, 0b11111110, 0, 2)
    assert hints[0] == TopologyHint(0b10, True)
    assert TopologyHint(0b0001, True) not in hints
    assert TopologyHint(0b0011, False) in hints
    assert len(hints) == 14
    only_wide = cpu_hints(FOUR_NODES, 0b01010101, 0, 2)
    assert not any(hint.preferred for hint in only_wide)


def test_hints_keep_reusable_cpus_in() -> None:
    """Every hint contains the nodes of the CPUs that are used again, and counts them."""
    hints = cpu_hints(FOUR_NODES, 0b11110000, 0b1, 2)
    assert all(hint.numa is not None and hint.numa & 1 for hint in hints)
    assert TopologyHint(0b101, False) in hints


def test_align_by_socket_prefers_whole_sockets() -> None:
    """With the option a combination within one socket is preferred though it has more nodes than needed."""
    assert TopologyHint(0b0011, False) in cpu_hints(FOUR_NODES, 0xFF, 0, 2)
    aligned = cpu_hints(FOUR_NODES, 0xFF, 0, 2, CpuPolicyOptions.of("align-by-socket"))
    assert TopologyHint(0b0011, True) in aligned
    assert TopologyHint(0b0110, False) in aligned


def test_hints_of_absurdly_many_nodes_are_refused() -> None:
    """The number of combinations doubles with each node: a hostile machine must not eat all memory."""
    many = Machine.from_vector({"cpus": [[c, c, 0, c, None] for c in range(64)], "numa": []})
    with pytest.raises(InputError, match="64 NUMA nodes with CPUs"):
        cpu_hints(many, many.cpus.mask, 0, 1)


def test_hints_of_an_allocated_container() -> None:
    """Hints are made again from what it has; if that is not what it asks for, nothing is possible."""
    static = policy(FOUR_NODES)
    owner = pod("a", container("c", "2"))
    state = static.start(None).with_entry("a", "c", CpuSet.parse("2-3"))
    hints = static.hints(state, owner, owner.containers[0])["cpu"]
    assert hints is not None
    assert hints[0] == TopologyHint(0b10, True)
    assert all(hint.numa is not None and hint.numa & 0b10 for hint in hints)
    changed = pod("a", container("c", "3"))
    assert static.hints(state, changed, changed.containers[0]) == {"cpu": ()}
    assert static.pod_hints(state, changed) == {"cpu": ()}
    assert static.pod_hints(state, owner) == {"cpu": hints}
