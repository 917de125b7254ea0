"""Room beside the other pods: what a kubelet's predicate refuses once the managers have allocated."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import AFFINITY, GIB, both, config, machine, pod
from toolkit.allocation.admission import TOPOLOGY_AFFINITY, Admission, StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node, start_node
from toolkit.allocation.planner import plan
from toolkit.kubernetes.node_config import NodeConfig, read_settings
from toolkit.kubernetes.pod import Pod


def some(cpu: str, memory: str = "1Gi", **more: str) -> dict[str, Any]:
    """Requests without limits: no CPUs of its own."""
    return {"requests": {"cpu": cpu, "memory": memory, **more}}


def decided(pods: list[Pod], settings: NodeConfig, on: Machine | None = None) -> list[tuple[str, str]]:
    """Return reason and message of every pod; an admitted one has neither."""
    return [(one.reason, one.message) for one in plan(pods, settings, on or machine()).pods]


FITS = ("", "")


def lack(resource: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    """The kubelet's refusal."""
    numbers = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {numbers}"


def test_a_pod_that_no_node_of_this_size_can_hold_is_refused() -> None:
    """16 CPUs, two of them reserved, and 32 GiB: the managers have no opinion about a Burstable pod."""
    pods = [pod("cpu", some("5000")), pod("memory", some("1", "900Ti")), pod("web", some("1"))]

    assert decided(pods, config()) == [
        lack("cpu", 5_000_000, 0, 14_000),
        lack("memory", 900 << 40, 0, 32 * GIB),
        FITS,
    ]


def test_what_others_have_counts_and_what_they_gave_back_does_not() -> None:
    """A refused pod holds nothing: neither its requests nor the CPUs that the manager had given to it."""
    shared = [pod(f"s{i}", some("6")) for i in range(2)]
    pods = [*shared, pod("own", both("4")), pod("small", both("2")), pod("none", {})]
    made = plan(pods, config(), machine())

    reasons = [(one.name, one.reason) for one in made.pods]
    assert reasons == [("s0", ""), ("s1", ""), ("own", "OutOfcpu"), ("small", ""), ("none", "")]
    assert made.pods[2].message == lack("cpu", 4000, 12_000, 14_000)[1]
    assert str(made.pods[3].containers[0].cpus) == "1,9"
    assert str(made.default_cpus) == "0,2-8,10-15"


def test_the_managers_are_asked_first() -> None:
    """Seven CPUs of one NUMA node are not to be had: it is the Topology Manager that says so, not the predicate."""
    single = config(topologyManagerPolicy="single-numa-node")

    assert decided([pod("big", both("40"))], single) == [(TOPOLOGY_AFFINITY, AFFINITY)]


def test_init_containers_sidecars_overhead_and_budgets_count() -> None:
    """An init container counts where it needs more than what runs later, a sidecar and overhead beside all."""
    start = [{"name": "i", "resources": some("15")}]
    beside = [{"name": "s", "restartPolicy": "Always", "resources": some("8")}]
    refused = [
        pod("init", some("1"), initContainers=start),
        pod("sidecar", some("7"), initContainers=beside),
        pod("overhead", some("14"), overhead={"cpu": "1"}),
        pod("budget", some("1"), resources=some("15")),
    ]

    assert decided(refused, config()) == [lack("cpu", 15_000, 0, 14_000)] * 4
    assert decided([pod("small", some("14"), initContainers=[{"name": "i", "resources": some("13")}])], config()) == [
        FITS
    ]


def test_huge_pages_are_a_resource_of_their_own() -> None:
    """The node has 2 GiB of 2 MiB and none of 1 GiB; their memory is no pod's as such."""
    huge = Machine.from_vector(
        {"cpus": [[0, 0, 0, 0, 0]], "numa": [{"id": 0, "memory": 4 * GIB, "hugepages": {"2Mi": 1024}}]}
    )
    amounts = {name: {"cpu": "0", "memory": "1Mi", name: "1Gi"} for name in ("hugepages-2Mi", "hugepages-1Gi")}
    pages = {name: {"requests": asked, "limits": asked} for name, asked in amounts.items()}
    pods = [pod(f"p{i}", pages["hugepages-2Mi"]) for i in range(3)]

    assert decided(
        [*pods, pod("none", pages["hugepages-1Gi"]), pod("memory", some("0", "3Gi"))], read_settings({}, "k"), huge
    ) == [
        FITS,
        FITS,
        lack("hugepages-2Mi", GIB, 2 * GIB, 2 * GIB),
        lack("hugepages-1Gi", GIB, 0, 0),
        lack("memory", 3 * GIB, 2 << 20, 2 * GIB),
    ]


@pytest.mark.parametrize(
    ("settings", "bound"),
    [({}, 110), ({"maxPods": 3}, 3), ({"maxPods": 0}, 110), ({"podsPerCore": 2}, 32), ({"podsPerCore": 100}, 110)],
)
def test_a_node_has_room_for_so_many_pods(settings: dict[str, Any], bound: int) -> None:
    """It is the first that is counted; pods that ask for nothing count, too, and refused ones do not."""
    pods = [pod("huge", some("999")), *(pod(f"p{i}", {}) for i in range(bound)), pod("late", some("999"))]
    answers = decided(pods, config(**settings))

    assert answers[1:] == [*[FITS] * bound, lack("pods", 1, bound, bound)]


@pytest.mark.parametrize(("name", "flag"), [("maxPods", "--max-pods"), ("podsPerCore", "--pods-per-core")])
def test_a_negative_number_of_pods_keeps_the_kubelet_from_starting(name: str, flag: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(StartupError) as error:
        Node(config(**{name: -1}), machine())

    assert error.value.stage == "config-validation"
    assert error.value.message == f"invalid configuration: {name} ({flag}) -1 must not be a negative number"


def test_the_recorded_managers_have_no_predicate() -> None:
    """The vectors' wiring ends with them: `simulate` admits what they admit."""
    assert Node(config(), machine()).admit(pod("big", some("5000"))).admitted
    assert not plan([pod("big", some("5000"))], config(), machine()).pods[0].admitted
    assert plan([pod("big", some("5000"))], config(), machine(), predicate=False).pods[0].admitted


def test_memory_that_was_not_recorded_refuses_no_pod() -> None:
    """How much there is is not known; CPUs are counted all the same."""
    bare = Machine.from_vector({"cpus": [[0, 0, 0, 0, 0]], "numa": [{"id": 0, "memory": 0}]})

    assert decided([pod("a", some("1", "1Ti")), pod("b", some("1"))], read_settings({}, "k"), bare) == [
        FITS,
        lack("cpu", 1000, 1000, 1000),
    ]


def test_a_kubelet_that_reserves_more_does_not_admit_every_pod_again() -> None:
    """After a restart the pods are admitted in their order: the one that came last finds too little room."""
    before = read_settings({"kubeReserved": {"cpu": "2"}}, "k")
    node = start_node(before, machine(), predicate=True)
    for one in (pod("first", some("7")), pod("last", some("7"))):
        assert node.admit(one) == Admission(True)

    same = {one.name: answer for one, answer in node.restarted().readmit()}
    more = read_settings({"kubeReserved": {"cpu": "4"}}, "k")
    again = {one.name: answer for one, answer in node.restarted(more).readmit()}

    assert same == {"first": Admission(True), "last": Admission(True)}
    assert again == {"first": Admission(True), "last": Admission(False, *lack("cpu", 7000, 7000, 12_000))}
