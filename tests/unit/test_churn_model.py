"""The model of a node under churn: random, repeatable, and consistent after every operation."""

from __future__ import annotations

import random

import pytest

from tests.churn.model import MAX_PODS, ChurnModel, Operation, Step
from toolkit.allocation.machine import Machine
from toolkit.model.cpuset import CpuSet

GIB = 1 << 30


def model(cpus: int, seed: int) -> ChurnModel:
    """A node of some CPUs, the first reserved."""
    machine = Machine.from_vector(
        {"cpus": [[cpu, cpu, 0, 0, 0] for cpu in range(cpus)], "numa": [{"id": 0, "memory": 16 * GIB}]}
    )
    return ChurnModel(machine, CpuSet.of([0]), random.Random(seed))


@pytest.mark.parametrize("cpus", [2, 3, 8])
def test_every_state_is_consistent(cpus: int) -> None:
    """Exclusive CPUs have one owner, reserved ones none, and what is owned plus the pool is the machine."""
    churned = model(cpus, 7)
    seen = set()
    for _ in range(150):
        seen.add(churned.step().operation)
        assert churned.problems() == []
        state = churned.node.cpu_state
        assert state.owned() | state.default == CpuSet.parse(f"0-{cpus - 1}")
        assert not state.owned() & state.default
        assert len(churned.pods) <= MAX_PODS
    assert seen == set(Operation)


def test_a_seed_repeats_itself() -> None:
    """The same seed gives the same life."""

    def life(seed: int) -> list[Step]:
        churned = model(4, seed)
        return [churned.step() for _ in range(50)]

    assert life(3) == life(3)
    assert life(3) != life(4)


def test_what_is_wrong_is_said() -> None:
    """A pool that still holds what a container owns is a problem of the model itself."""
    churned = model(4, 1)
    while {name.rstrip("0123456789") for name in churned.pods} != {"own", "shared"}:
        churned.step()
    assert churned.problems() == []
    churned.node.cpu_state = churned.node.cpu_state._replace(default=CpuSet.parse("0-3"))
    assert any("are also shared" in line for line in churned.problems())
