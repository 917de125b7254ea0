"""The static policy's transitions: admission, reuse, sidecars, release, restart."""

from __future__ import annotations

import pytest

from tests.unit.toolkit.allocation.static_policy import (
    INIT,
    SIDECAR,
    admit,
    container,
    names,
    pod,
    policy,
)
from toolkit.allocation.cpu.manager import CpuAdmissionError, CpuState, NonePolicy, StaticPolicy, make_policy
from toolkit.allocation.cpu.options.option import CpuPolicyError
from toolkit.allocation.cpu.requests import exclusive_cpus, pod_exclusive_cpus
from toolkit.allocation.machine import Machine
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet


def test_exclusive_and_shared() -> None:
    """Whole CPUs of a Guaranteed pod are exclusive; fractions follow the shared pool, which shrinks."""
    static = policy()
    state = admit(static, static.start(None), pod("a", container("c", "2"), container("d", "1500m")))
    assert str(state.cpus_of("a", "c")) == "1,5"
    assert state.assigned("a", "d") is None
    assert str(state.cpus_of("a", "d")) == str(state.default) == "0,2-4,6-7"


def test_reserved_cpus_stay_in_the_shared_pool_unless_strict() -> None:
    """Without strict-cpu-reservation shared containers may run on reserved CPUs, with it they may not."""
    assert str(policy().start(None).default) == "0-7"
    strict = policy(strict_cpu_reservation="true")
    assert str(strict.start(None).default) == "1-7"
    assert str(strict.allocatable) == "1-7"


def test_strict_reservation_as_the_proposal_shows_it() -> None:
    """KEP-4540's example: 64 CPUs, six of them reserved, with and without the option."""
    machine = Machine.from_vector(
        {"cpus": [[c, c % 32, c % 32 // 16, c % 32 // 16, None] for c in range(64)], "numa": []}
    )
    reserved = CpuSet.parse("0,32,1,33,16,48")
    for value, shared in (("false", "0-63"), ("true", "2-15,17-31,34-47,49-63")):
        options = {"strict-cpu-reservation": value}
        static = make_policy("static", options, machine, reserved_milli=6000, reserved_list=reserved)
        assert str(static.start(None).default) == shared


def test_refusal_leaves_the_state_alone() -> None:
    """A refused container changes nothing, and the message counts what was free."""
    static = policy()
    state = static.start(None)
    with pytest.raises(CpuAdmissionError) as error:
        admit(static, state, pod("a", container("c", "8")))
    assert error.value.reason == "UnexpectedAdmissionError"
    assert error.value.message == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=8, available=7, "
        "which is unexpected"
    )
    assert error.value.state == state


def test_smt_alignment() -> None:
    """full-pcpus-only refuses parts of cores, and counts the sibling of a reserved CPU as taken."""
    static = policy(full_pcpus_only="true")
    state = static.start(None)
    with pytest.raises(
        CpuAdmissionError,
        match=r": SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2$",
    ):
        admit(static, state, pod("a", container("c", "3")))
    with pytest.raises(
        CpuAdmissionError, match=r"available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2$"
    ) as error:
        admit(static, state, pod("a", container("c", "8")))
    assert error.value.reason == "SMTAlignmentError"
    assert str(admit(static, state, pod("a", container("c", "6"))).cpus_of("a", "c")) == "1-3,5-7"


def test_init_containers_hand_their_cpus_on() -> None:
    """What regular init containers had is used again by those that follow, and by no other."""
    static = policy()
    first = pod("a", container("i", "4", INIT), container("c", "2"))
    state = admit(static, static.start(None), first)
    assert str(state.cpus_of("a", "i")) == "1-2,5-6"
    assert state.cpus_of("a", "c") <= state.cpus_of("a", "i")
    other = admit(static, state, pod("b", container("c", "3")))
    assert other.cpus_of("b", "c").isdisjoint(other.cpus_of("a", "i"))


def test_sidecars_keep_their_cpus() -> None:
    """A sidecar runs along with everything after it: its CPUs are not used again."""
    static = policy()
    state = admit(static, static.start(None), pod("a", container("s", "2", SIDECAR), container("c", "2")))
    assert state.cpus_of("a", "s").isdisjoint(state.cpus_of("a", "c"))


def test_removal_restores() -> None:
    """When the pod is gone the shared pool is as before; siblings keep what they still use."""
    static = policy()
    empty = static.start(None)
    owner = pod("a", container("i", "4", INIT), container("c", "2"))
    state = admit(static, empty, owner)
    partly = static.release(state, "a", "i")
    assert partly.cpus_of("a", "c").isdisjoint(partly.default)
    assert static.remove_stale(state, names(owner)) == state
    assert static.remove_stale(state, {}).default == empty.default
    assert static.remove_stale(state, {}).entries == {}


def test_allocating_again_changes_nothing() -> None:
    """A container that has its CPUs already keeps them (re-admission after a restart)."""
    static = policy()
    again = pod("a", container("c", "2"))
    state = admit(static, static.start(None), again)
    assert admit(static, static.start(state), again).entries == state.entries


def test_restart_validates_the_state() -> None:
    """A state that does not fit is refused in the kubelet's words; one that fits is taken over."""
    static, strict = policy(), policy(strict_cpu_reservation="true")
    cpus = CpuSet.parse
    good = CpuState("static", cpus("0,2-7"), {"a": {"c": cpus("1")}})
    assert static.start(good).entries == good.entries
    for on, state, message in (
        (static, good._replace(default=CpuSet()), "default cpuset cannot be empty"),
        (
            static,
            CpuState("static", cpus("1-7"), {"a": {"c": cpus("0")}}),
            'not all reserved cpus: "0" are present in defaultCpuSet: "1-7"',
        ),
        (strict, good, 'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0,2-7"'),
        (
            static,
            good._replace(default=cpus("0-7")),
            'pod: a, container: c cpuset: "1" overlaps with default cpuset "0-7"',
        ),
        (
            static,
            good._replace(default=cpus("0,2-6")),
            'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-6"',
        ),
    ):
        with pytest.raises(CpuPolicyError) as error:
            on.start(state)
        assert str(error.value) == message


def test_requests() -> None:
    """Fractions and pods that are not Guaranteed count nothing; inits overlap, sidecars do not."""
    mixed = pod("a", container("s", "1", SIDECAR), container("i", "5", INIT), container("c", "2"), container("d", "1"))
    assert pod_exclusive_cpus(mixed, pod_level_managers=False) == 6
    assert exclusive_cpus(mixed, mixed.containers[1], pod_level_managers=False) == 5
    burstable = pod("b", container("c", "2"), container("d", ""))
    assert exclusive_cpus(burstable, burstable.containers[0], pod_level_managers=False) == 0
    fractional = pod("c", container("c", "2"), budget="2500m")
    assert pod_exclusive_cpus(fractional, pod_level_managers=True) == 0


def test_broken_promises_are_named() -> None:
    """Reserved CPUs given away (an irregular core brings them along), double owners and leaks are told."""
    lone = Machine.from_vector({"cpus": [[c, c % 4, 0, 0, None] for c in range(7)], "numa": []})
    static = make_policy("static", {}, lone, reserved_milli=1000, reserved_list=CpuSet.of([0]))
    assert isinstance(static, StaticPolicy)
    state = admit(static, static.start(None), pod("a", container("c", "2")))
    assert static.defects(state) == ("reserved CPUs 0 were given to pod a",)
    regular = policy()
    assert regular.defects(admit(regular, regular.start(None), pod("a", container("c", "4")))) == ()
    double = CpuState("static", CpuSet(), {"a": {"c": CpuSet.parse("1-2")}, "b": {"c": CpuSet.parse("2-3")}})
    assert regular.defects(double) == ("CPUs 2 belong to pod a and to pod b",)
    assert regular.defects(CpuState("static", pods={"a": CpuSet.parse("1")})) == (
        "CPUs 1 are held by a pod that has no container",
    )


def test_a_shortage_counts_what_the_kubelet_counts() -> None:
    """A core with one free thread of two is taken whole near the hint: one CPU more stays for the rest.

    The CPU of the other pod is not given away, but the refusal names the number that the kubelet names. Source:
    Kubernetes v1.36 pkg/kubelet/cm/cpumanager (policy_static.go allocateCPUs, cpu_assignment.go takeFullCores).
    """
    lone = Machine.from_vector({"cpus": [[c, c % 4, 0, 0, None] for c in range(7)], "numa": []})
    state = CpuState("static", CpuSet.parse("0-3,5-6"), {"a": {"c": CpuSet.of([4])}})
    wanted = pod("b", container("c", "7"))
    for quirks in (False, True):
        static = make_policy("static", {}, lone, reserved_milli=1000, reserved_list=CpuSet.of([3]), quirks=quirks)
        with pytest.raises(CpuAdmissionError) as error:
            static.allocate(state, wanted, wanted.containers[0], 1)
        assert "requested=2, available=1," in error.value.message


def test_none_policy_does_nothing() -> None:
    """No CPU set is handed over, no state changes, no hints."""
    none = NonePolicy()
    owner = pod("a", container("c", "2"))
    state = none.start(None)
    assert none.allocate(state, owner, owner.containers[0], 1) == state
    assert none.allocate_pod(state, owner, 1) == state
    assert none.release(none.remove_stale(state, {}), "a", "c") == state
    assert none.hints(state, owner, owner.containers[0]) == none.pod_hints(state, owner) == {}
    assert not state.cpus_of("a", "c")
    assert not none.allocatable
    assert none.isolation(state, owner, owner.containers[0]) is Isolation.HOST
