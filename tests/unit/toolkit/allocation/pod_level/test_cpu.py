"""A pod-level budget of CPUs: how it is divided among containers, and when it is refused."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.allocation.static_policy import (
    INIT,
    SIDECAR,
    admit,
    container,
    pod,
    policy,
)
from toolkit.allocation.cpu.manager import CpuAdmissionError
from toolkit.model.claims import Isolation


def test_pod_level_budget_is_divided() -> None:
    """One set for the pod: exclusive parts, and the rest for those that share; inits may use what no sidecar has."""
    static = policy(gate=True)
    owner = pod(
        "a",
        container("s", "1", SIDECAR),
        container("i", "", INIT),
        container("c", "2"),
        container("d", ""),
        budget="6",
    )
    state = static.allocate_pod(static.start(None), owner, None)
    whole = state.pods["a"]
    assert len(whole) == 6
    parts = state.entries["a"]
    assert parts["i"] == whole - parts["s"]
    assert parts["d"] == whole - parts["s"] - parts["c"]
    levels = {item.name: static.isolation(state, owner, item) for item in owner.containers}
    assert levels == {"s": Isolation.CONTAINER, "i": Isolation.POD, "c": Isolation.CONTAINER, "d": Isolation.POD}
    partly = static.release(state, "a", "c")
    assert partly.default == state.default, "the pod's CPUs come back as a whole"
    assert static.remove_stale(state, {}).default == static.start(None).default


def test_pod_level_needs_cpus_for_those_that_share() -> None:
    """A budget that exclusive containers use up leaves nothing to share: refused, and no hint is given."""
    static = policy(gate=True)
    state = static.start(None)
    full = pod("a", container("c", "2"), container("d", ""), budget="2")
    with pytest.raises(CpuAdmissionError, match="leaving no cpus for shared containers") as error:
        static.allocate_pod(state, full, None)
    assert error.value.reason == "EmptyPodSharedPoolError"
    assert static.pod_hints(state, full) == {"cpu": ()}
    sidecar = pod("b", container("s", "2", SIDECAR), container("i", "", INIT), container("c", "1"), budget="2")
    with pytest.raises(CpuAdmissionError, match="pod has shared init containers but no cpus available for them"):
        static.allocate_pod(state, sidecar, None)
    # An init container that does not fit beside the sidecars before it is seen no sooner than when the pod is divided.
    # Source: kubernetes v1.36.2, pkg/kubelet/cm/cpumanager/policy_static.go, validatePodScopeResources, AllocatePod.
    large = pod("d", container("s", "1", SIDECAR), container("i", "2", INIT), container("c", ""), budget="2")
    assert static.pod_hints(state, large)["cpu"]
    with pytest.raises(CpuAdmissionError, match=r"not enough cpus available .*: requested=2, available=1"):
        static.allocate_pod(state, large, None)


def test_impossible_division_leaks_only_as_a_quirk() -> None:
    """Containers above the budget: the real component loses the pod's CPUs, the model does not."""
    impossible = pod("a", container("c", "2"), container("d", "2"), budget="3")
    for quirks, leaked in ((False, 0), (True, 3)):
        static = policy(gate=True, quirks=quirks)
        state = static.start(None)
        with pytest.raises(CpuAdmissionError) as error:
            static.allocate_pod(state, impossible, None)
        assert len(error.value.state.leaked(frozenset())) == leaked
        assert len(error.value.state.default) == 8 - leaked


def test_pod_level_without_the_gate_is_left_alone() -> None:
    """Without the gate a pod with a budget gets nothing exclusive, however its containers look."""
    static = policy()
    budgeted = pod("a", container("c", "2"), budget="2")
    state = static.start(None)
    assert admit(static, state, budgeted) == state
    assert static.hints(state, budgeted, budgeted.containers[0]) == {}
    assert static.pod_hints(state, budgeted) == {}
