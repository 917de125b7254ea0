"""What holds for every machine, option set and sequence of pods."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.allocation.cpu.manager import CpuAdmissionError, CpuState, StaticPolicy, make_policy
from toolkit.allocation.cpu.options.option import CpuPolicyError
from toolkit.allocation.cpu.options.registry import OPTIONS
from toolkit.allocation.machine import Machine, MachineCpu
from toolkit.kubernetes.pod import Container, Pod, Resources
from toolkit.kubernetes.quantity import Quantity
from toolkit.model.plan import ContainerRole

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def machines(draw: st.DrawFn, *, irregular: bool = False) -> Machine:
    """Draw sockets of nodes of cores of threads, siblings side by side or apart, now and then nodes across sockets.

    :param irregular: some CPUs are offline.
    """
    sockets, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cores, threads = draw(st.integers(1, 3)), draw(st.sampled_from((1, 2, 2, 4)))
    apart, per_cache = draw(st.booleans()), draw(st.integers(1, 4))
    crossing = draw(st.integers(0, 4)) == 0
    total = sockets * nodes * cores
    rows = [
        MachineCpu(
            cpu=core + thread * total if apart else core * threads + thread,
            core=core,
            socket=core // (nodes * cores),
            numa=core % nodes if crossing else core // cores,
            uncore=core // per_cache,
        )
        for core in range(total)
        for thread in range(threads)
    ]
    if irregular:
        offline = draw(st.sets(st.sampled_from(range(len(rows))), max_size=len(rows) // 3))
        rows = [row for place, row in enumerate(rows) if place not in offline]
    return Machine.build(rows, ())


@st.composite
def policies(draw: st.DrawFn, *, irregular: bool = False) -> StaticPolicy:
    """Draw a static policy that starts on its machine."""
    machine = draw(machines(irregular=irregular))
    options = draw(st.sets(st.sampled_from(sorted(OPTIONS)), max_size=3))
    reserved = draw(st.integers(1, max(1, machine.num_cpus // 3)))
    for wanted in (options, ()):
        try:
            made = make_policy(
                "static", dict.fromkeys(wanted, "true"), machine, reserved_milli=1000 * reserved, alpha_options=True
            )
        except CpuPolicyError:
            continue
        assert isinstance(made, StaticPolicy)
        return made
    raise AssertionError("a policy without options starts everywhere")


@st.composite
def pods(draw: st.DrawFn, uid: str, most: int) -> Pod:
    """Draw a guaranteed pod with init containers, sidecars and app containers."""
    roles = sorted(draw(st.lists(st.sampled_from(list(ContainerRole)), max_size=2)), key=list(ContainerRole).index)
    containers = []
    for place, role in enumerate((*roles, ContainerRole.APP)):
        milli = draw(st.one_of(st.integers(1, most).map(lambda n: n * 1000), st.just(1500)))
        amounts = {"cpu": Quantity.parse(f"{milli}m"), "memory": Quantity.of(1 << 30)}
        containers.append(Container(name=f"c{place}", role=role, resources=Resources(requests=amounts, limits=amounts)))
    return Pod(uid=uid, name=uid, containers=tuple(containers))


def admit(policy: StaticPolicy, state: CpuState, pod: Pod, numa: int | None) -> tuple[CpuState, bool]:
    """Admit a pod, or clean up after its refusal, as the admission does."""
    active = {uid: frozenset(containers) for uid, containers in state.entries.items()}
    now = state
    try:
        for container in pod.containers:
            now = policy.allocate(now, pod, container, numa)
    except CpuAdmissionError as error:
        return policy.remove_stale(error.state, active), False
    return now, True


def check(policy: StaticPolicy, state: CpuState, *, irregular: bool) -> None:
    """Exclusive sets of different pods are disjoint, the union is conserved, nothing reserved is given away."""
    owned = 0
    for containers in state.entries.values():
        mask = 0
        for cpus in containers.values():
            mask |= cpus.mask
        assert not mask & owned, "a CPU belongs to two pods"
        owned |= mask
    assert not owned & state.default.mask
    if not irregular:
        everything = policy.allocatable if policy.strict_reservation else policy.machine.cpus
        assert owned | state.default.mask == everything.mask
        assert not owned & policy.reserved.mask


def play(policy: StaticPolicy, data: st.DataObject, *, irregular: bool) -> None:
    """Admit and remove pods at random and check after each step."""
    empty = state = policy.start(None)
    alive: list[str] = []
    nodes = sorted(policy.machine.numa_masks)
    for step in range(data.draw(st.integers(1, 8))):
        if alive and data.draw(st.integers(0, 3)) == 0:
            alive.remove(data.draw(st.sampled_from(alive)))
            state = policy.remove_stale(state, {uid: frozenset(state.entries.get(uid, ())) for uid in alive})
        else:
            pod = data.draw(pods(f"p{step}", max(1, policy.machine.num_cpus // 2)))
            hint = data.draw(st.one_of(st.none(), st.sets(st.sampled_from(nodes), min_size=1)))
            numa = None if hint is None else sum(1 << node for node in hint)
            before = state
            state, admitted = admit(policy, state, pod, numa)
            assert (state, admitted) == admit(policy, before, pod, numa), "the same question has the same answer"
            if admitted:
                alive.append(pod.uid)
                for container in pod.containers:
                    cpus = state.assigned(pod.uid, container.name)
                    got, asked = 0 if cpus is None else len(cpus), policy.requested(pod, container)
                    # On an irregular machine a CPU can count twice, as in the kubelet.
                    assert got == asked or (irregular and got < asked)
            else:
                assert state.entries == before.entries
                assert irregular or state.default == before.default
        check(policy, state, irregular=irregular)
    end = policy.remove_stale(state, {})
    assert not end.entries
    assert irregular or end.default == empty.default


@given(policies(), st.data())
@QUICK
def test_regular_machines(policy: StaticPolicy, data: st.DataObject) -> None:
    """Disjoint, conserved, never reserved, as many as asked for, deterministic, and removal restores."""
    play(policy, data, irregular=False)


@given(policies(irregular=True), st.data())
@QUICK
def test_irregular_machines(policy: StaticPolicy, data: st.DataObject) -> None:
    """With offline siblings the kubelet may give reserved CPUs away, but here no CPU ever belongs to two pods."""
    play(policy, data, irregular=True)


@given(policies(), st.data())
@QUICK
def test_restart_is_no_restart(policy: StaticPolicy, data: st.DataObject) -> None:
    """Starting over the state and admitting the same pods again changes nothing, as long as a container may share."""
    state = policy.start(None)
    admitted: list[Pod] = []
    for step in range(data.draw(st.integers(1, 5))):
        pod = data.draw(pods(f"p{step}", max(1, policy.machine.num_cpus // 3)))
        state, ok = admit(policy, state, pod, None)
        admitted += [pod] if ok else []
    if state.entries and not state.default:
        # Under strict reservation pods may own everything; the kubelet then refuses to start over its own state.
        with pytest.raises(CpuPolicyError, match="default cpuset cannot be empty"):
            policy.start(state)
        return
    again = policy.start(state)
    assert again == state.restarted()
    if "full-pcpus-only" not in policy.options:
        for pod in admitted:
            again, ok = admit(policy, again, pod, None)
            assert ok
        assert (again.entries, again.default) == (state.entries, state.default)


def in_two_places(machine: Machine) -> bool:
    """Say whether a cache spans NUMA nodes, or a node sockets: the orders of units name such a unit twice."""
    pairs = ((machine.uncore_masks, machine.numa_masks), (machine.numa_masks, machine.socket_masks))
    return any(
        sum(1 for other in outer.values() if mask & other) > 1 for inner, outer in pairs for mask in inner.values()
    )


@given(policies(), st.data())
@QUICK
def test_quirks_change_nothing_on_regular_machines(policy: StaticPolicy, data: st.DataObject) -> None:
    """The overlap defect needs irregular cores, the aliasing one four nodes, the double count a unit in two places."""
    if policy.machine.num_numa >= 4 and "distribute-cpus-across-numa" in policy.options:
        return
    if in_two_places(policy.machine):
        return
    made = make_policy(
        "static",
        dict.fromkeys(policy.options.names, "true"),
        policy.machine,
        reserved_milli=1000 * len(policy.reserved),
        alpha_options=True,
        quirks=True,
    )
    assert isinstance(made, StaticPolicy)
    left, right = policy.start(None), made.start(None)
    for step in range(3):
        pod = data.draw(pods(f"p{step}", max(1, policy.machine.num_cpus // 3)))
        left, right = admit(policy, left, pod, None)[0], admit(made, right, pod, None)[0]
        assert left == right
