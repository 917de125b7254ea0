"""The static policy's transitions: admission, reuse, sidecars, release, pod-level division, restart, hints.

Longer than 300 lines: one table of transitions; its fixtures serve all of them.
"""

from __future__ import annotations

import pytest

from toolkit.allocation.cpu.hints import cpu_hints
from toolkit.allocation.cpu.manager import CpuAdmissionError, CpuState, NonePolicy, StaticPolicy, make_policy
from toolkit.allocation.cpu.options import CpuPolicyError
from toolkit.allocation.cpu.requests import exclusive_cpus, pod_exclusive_cpus
from toolkit.allocation.machine import Machine
from toolkit.allocation.topology.hint import TopologyHint
from toolkit.errors import InputError
from toolkit.model.claims import Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import ContainerRole
from toolkit.model.pod import Container, Pod, Resources
from toolkit.model.quantity import Quantity

SMT8 = Machine.from_vector({"cpus": [[c, c % 4, 0, 0, None] for c in range(8)], "numa": []})
FOUR_NODES = Machine.from_vector({"cpus": [[c, c, c // 4, c // 2, None] for c in range(8)], "numa": []})
INIT, SIDECAR, APP = ContainerRole.INIT, ContainerRole.SIDECAR, ContainerRole.APP


def policy(on: Machine = SMT8, *, gate: bool = False, quirks: bool = False, **options: str) -> StaticPolicy:
    """Build a static policy with one reserved CPU."""
    values = {name.replace("_", "-"): value for name, value in options.items()}
    made = make_policy(
        "static", values, on, reserved_milli=1000, alpha_options=True, pod_level_managers=gate, quirks=quirks
    )
    assert isinstance(made, StaticPolicy)
    return made


def resources(cpu: str, memory: str = "1Gi") -> Resources:
    """Build equal requests and limits."""
    amounts = {"cpu": Quantity.parse(cpu), "memory": Quantity.parse(memory)}
    return Resources(requests=amounts, limits=amounts)


def container(name: str, cpu: str, role: ContainerRole = APP) -> Container:
    """Build a guaranteed container; with no ``cpu`` one that asks for nothing."""
    return Container(name=name, role=role, resources=resources(cpu) if cpu else Resources())


def pod(uid: str, *containers: Container, budget: str = "") -> Pod:
    """Build a pod, with a pod-level budget if one is given."""
    return Pod(uid=uid, name=uid, containers=containers, resources=resources(budget) if budget else None)


def admit(policy: StaticPolicy, state: CpuState, pod: Pod) -> CpuState:
    """Allocate all containers in order, without hints."""
    for item in pod.containers:
        state = policy.allocate(state, pod, item, None)
    return state


def names(pod: Pod) -> dict[str, frozenset[str]]:
    """Name an active pod's containers as ``remove_stale`` wants them."""
    return {pod.uid: frozenset(item.name for item in pod.containers)}


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
        CpuAdmissionError, match=r"^SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2$"
    ):
        admit(static, state, pod("a", container("c", "3")))
    with pytest.raises(
        CpuAdmissionError, match=r"available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2$"
    ) as error:
        admit(static, state, pod("a", container("c", "8")))
    assert error.value.reason == "SMTAlignmentError"
    assert str(admit(static, state, pod("a", container("c", "6"))).cpus_of("a", "c")) == "1-3,5-7"


def test_init_containers_hand_their_cpus_on() -> None:
    """What regular init containers had is used again by those that follow, and by nobody else."""
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
    large = pod("d", container("s", "1", SIDECAR), container("i", "2", INIT), container("c", ""), budget="2")
    with pytest.raises(
        CpuAdmissionError, match="largest exclusive init container requests 2 cpus, but only 1 available"
    ):
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


def test_requests() -> None:
    """Fractions and pods that are not Guaranteed count nothing; inits overlap, sidecars do not."""
    mixed = pod("a", container("s", "1", SIDECAR), container("i", "5", INIT), container("c", "2"), container("d", "1"))
    assert pod_exclusive_cpus(mixed, pod_level_managers=False) == 6
    assert exclusive_cpus(mixed, mixed.containers[1], pod_level_managers=False) == 5
    burstable = pod("b", container("c", "2"), container("d", ""))
    assert exclusive_cpus(burstable, burstable.containers[0], pod_level_managers=False) == 0
    fractional = pod("c", container("c", "2"), budget="2500m")
    assert pod_exclusive_cpus(fractional, pod_level_managers=True) == 0


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
    aligned = cpu_hints(FOUR_NODES, 0xFF, 0, 2, align_by_socket=True)
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
