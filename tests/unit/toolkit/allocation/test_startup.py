"""A kubelet's start: what it keeps back of each resource, and what it refuses because of that."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.allocation.admission import StartupError
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.kubernetes.node_config import read_settings

GIB = 1 << 30
GIB_OF_2MIB = 512
ONE = Machine.from_vector({"cpus": [[0, 0, 0, 0, None]], "numa": [{"id": 0, "memory": GIB}]})


def node(reserved: dict[str, str], kept: dict[str, str], pages: int = GIB_OF_2MIB) -> Node:
    """A kubelet on two nodes of 8 GiB with ``pages`` huge pages of 2 MiB each, and none of 1 GiB on the second.

    :param reserved: kubeReserved beside 1 GiB. :param kept: reservedMemory of the second node.
    """
    sizes = ({"2Mi": pages, "1Gi": 0}, {"2Mi": pages})
    shape: dict[str, Any] = {
        "cpus": [[i, i, 0, i // 2, None] for i in range(4)],
        "numa": [{"id": i, "memory": 8 * GIB, "hugepages": huge} for i, huge in enumerate(sizes)],
    }
    config = read_settings(
        {
            "cpuManagerPolicy": "static",
            "kubeReserved": {"cpu": "1", "memory": "1Gi", **reserved},
            "memoryManagerPolicy": "Static",
            "reservedMemory": [
                {"numaNode": 0, "limits": {"memory": "1Gi"}},
                *([{"numaNode": 1, "limits": kept}] if kept else []),
            ],
        },
        "kubelet",
    )
    return Node(config, Machine.from_vector(shape))


def refusal(reserved: dict[str, str], kept: dict[str, str]) -> tuple[str, str]:
    """Stage and message with which the kubelet does not start."""
    with pytest.raises(StartupError) as raised:
        node(reserved, kept)
    return raised.value.stage, raised.value.message


def test_reserved_huge_pages_are_kept_back() -> None:
    """Of a size that the machine has they count: the reservation of the nodes equals it, and pods have the rest."""
    started = node({"hugepages-2Mi": "512Mi"}, {"hugepages-2Mi": "512Mi"})

    assert str(started.allocatable["hugepages-2Mi"]) == "1536Mi"
    assert started.allocatable["memory"].value == (16 - 1 - 2) * GIB
    assert [at.free()["hugepages-2Mi"] for at in started.memory.state.nodes.values()] == [GIB, GIB // 2]


@pytest.mark.parametrize(
    ("reserved", "kept", "total"),
    [("512Mi", {}, "0"), ("512Mi", {"hugepages-2Mi": "1Gi"}, "1Gi")],
    ids=["nowhere", "more"],
)
def test_reserved_huge_pages_must_be_of_a_node(reserved: str, kept: dict[str, str], total: str) -> None:
    """What is reserved of a size that the machine has must be what the nodes keep back."""
    assert refusal({"hugepages-2Mi": reserved}, kept) == (
        "memory-manager",
        (
            f'the total amount "{total}" of type "hugepages-2Mi" is not equal to the value "{reserved}" '
            "determined by Node Allocatable feature"
        ),
    )


@pytest.mark.parametrize(
    ("size", "has"), [("2Mi", "2Gi"), ("1Gi", "0")], ids=["of all nodes", "a size without any page"]
)
def test_no_more_huge_pages_are_reserved_than_the_machine_has(size: str, has: str) -> None:
    """Pages count over all nodes; a size that the kernel knows and has no page of is a resource, too."""
    name = f"hugepages-{size}"

    assert refusal({name: "3Gi"}, {name: "3Gi"}) == (
        "node-allocatable",
        (
            f'invalid Node Allocatable configuration. Resource "{name}" has a reservation of 3Gi '
            f"but capacity of {has}. Expected capacity >= reservation."
        ),
    )


def test_a_size_that_the_machine_lacks_is_no_resource() -> None:
    """What is reserved of it has no effect, and pods are offered none."""
    started = node({"hugepages-32Mi": "1Gi"}, {})

    assert "hugepages-32Mi" not in started.allocatable


def threshold(memory: str) -> str:
    """What a kubelet says to a hard eviction threshold, or how much memory it keeps of 2 GiB."""
    shape = {"cpus": [[0, 0, 0, 0, None]], "numa": [{"id": 0, "memory": 2 * GIB}]}
    config = read_settings({"evictionHard": {"memory.available": memory}}, "kubelet")
    try:
        started = Node(config, Machine.from_vector(shape))
    except StartupError as error:
        return f"{error.stage}: {error.message}"
    return str(2 * GIB - started.allocatable["memory"].value)


@pytest.mark.parametrize(
    ("memory", "outcome"),
    [
        ("100Mi", str(100 << 20)),
        ("5%", "107374184"),
        ("0%", "0"),
        ("100%", "0"),
        ("0", "eviction threshold memory.available must be positive: 0"),
        ("-1Mi", "eviction threshold memory.available must be positive: -1Mi"),
        ("-5%", "eviction percentage threshold memory.available must be >= 0%: -5%"),
        ("101%", "eviction percentage threshold memory.available must be <= 100%: 101%"),
        ("1e38%", "eviction percentage threshold memory.available must be <= 100%: 1e38%"),
        ("1e39%", 'strconv.ParseFloat: parsing "1e39": value out of range'),
        ("1e999%", 'strconv.ParseFloat: parsing "1e999": value out of range'),
        ("five%", 'strconv.ParseFloat: parsing "five": invalid syntax'),
        ("1K", "unable to parse quantity's suffix"),
    ],
)
def test_eviction_thresholds(memory: str, outcome: str) -> None:
    """A threshold of nothing is refused, 0% and 100% are none, and a share is kept in single precision.

    Source: Kubernetes v1.36 pkg/kubelet/eviction (helpers.go, parseThresholdStatement).
    """
    assert threshold(memory) in (outcome, f"config-parse: {outcome}")


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ({"memory.avail": "1Mi"}, "unsupported eviction signal memory.avail"),
        ({"nodefs.available": "101%"}, "eviction percentage threshold nodefs.available must be <= 100%: 101%"),
        ({"pid.available": "0"}, "eviction threshold pid.available must be positive: 0"),
        (
            {"memory.available": "1Mi", "imagefs.inodesFree": "-1"},
            "eviction threshold imagefs.inodesFree must be positive: -1",
        ),
    ],
)
def test_the_other_eviction_signals_must_be_right_too(signals: dict[str, str], message: str) -> None:
    """They keep no memory, but a kubelet does not start with a wrong one.

    Source: kubernetes v1.36.2, pkg/kubelet/eviction/helpers.go (``validSignal``, ``parseThresholdStatement``).
    """
    shape = Machine.from_vector({"cpus": [[0, 0, 0, 0, None]], "numa": [{"id": 0, "memory": 2 * GIB}]})
    with pytest.raises(StartupError) as refused:
        Node(read_settings({"evictionHard": signals}, "kubelet"), shape)
    assert (refused.value.stage, refused.value.message) == ("config-parse", message)

    right = {"nodefs.available": "10%", "nodefs.inodesFree": "5%", "containerfs.available": "1Gi", "pid.available": "7"}
    assert Node(read_settings({"evictionHard": right}, "kubelet"), shape).allocatable["memory"].value == 2 * GIB


def test_a_list_of_reserved_cpus_replaces_amounts_unread() -> None:
    """The kubelet overwrites ``cpu`` of both reservations before it reads them; other amounts are read.

    Source: kubernetes v1.36.2, cmd/kubelet/app/server.go (``run``).
    """
    shape = Machine.from_vector({"cpus": [[i, i, 0, 0, None] for i in range(2)], "numa": [{"id": 0, "memory": GIB}]})
    fields: dict[str, Any] = {"kubeReserved": {"cpu": "many"}, "systemReserved": {"cpu": "-1"}}

    assert Node(read_settings({**fields, "reservedSystemCPUs": "1"}, "kubelet"), shape).allocatable["cpu"].value == 1
    with pytest.raises(StartupError, match='failed to parse quantity "many"'):
        Node(read_settings(fields, "kubelet"), shape)
    with pytest.raises(StartupError, match='failed to parse quantity "much"'):
        Node(read_settings({"reservedSystemCPUs": "1", "kubeReserved": {"memory": "much"}}, "kubelet"), shape)


def test_a_negative_node_is_one_that_does_not_exist() -> None:
    """Its reader takes the number; the Memory Manager refuses it, in the kubelet's words."""
    reserved = {"reservedMemory": [{"numaNode": -1, "limits": {"memory": "1Mi"}}]}

    Node(read_settings(reserved, "kubelet"), ONE)
    with pytest.raises(StartupError, match="references a NUMA node -1 that does not exist on this machine"):
        Node(read_settings({**reserved, "memoryManagerPolicy": "Static"}, "kubelet"), ONE)


FLAG = "enforceNodeAllocatable (--enforce-node-allocatable)"
NEEDS = (
    'invalid configuration: {0}ReservedCgroup (--{0}-reserved-cgroup) must be specified when "{0}-reserved" or '
    f'"{{0}}-reserved-compressible" included in {FLAG}'
)
VALID = (
    '"pods", "system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible" or "none"'
)


@pytest.mark.parametrize(
    ("enforced", "message"),
    [
        (["pods", "system-reserved"], NEEDS.format("system")),
        (["system-reserved-compressible"], NEEDS.format("system")),
        (["kube-reserved"], NEEDS.format("kube")),
        (["pods", "kube-reserved-compressible"], NEEDS.format("kube")),
        (["pods", "pods"], f'invalid configuration: duplicated enforcements "pods" in {FLAG}'),
        (
            ["pods", "none"],
            f'invalid configuration: {FLAG} may not contain additional enforcements when "none" is specified',
        ),
        (["all"], f'invalid configuration: option "all" specified for {FLAG}. Valid options are {VALID}'),
        (["kube-reserved", "system-reserved"], f"[{NEEDS.format('kube')}, {NEEDS.format('system')}]"),
    ],
)
def test_what_cannot_be_enforced_keeps_a_kubelet_from_starting(enforced: list[str], message: str) -> None:
    """A reservation is enforced on a cgroup, which must be named."""
    with pytest.raises(StartupError) as raised:
        Node(read_settings({"enforceNodeAllocatable": enforced}, "kubelet"), ONE)

    assert (raised.value.stage, raised.value.message) == ("config-validation", message)


def test_a_reservation_is_not_enforced_whole_and_compressible() -> None:
    """One excludes the other, with cgroups, too."""
    given: dict[str, Any] = {"systemReservedCgroup": "/system", "enforceNodeAllocatable": ["system-reserved"]}
    assert Node(read_settings(given, "kubelet"), ONE).allocatable
    given["enforceNodeAllocatable"] = ["system-reserved", "system-reserved-compressible"]
    with pytest.raises(StartupError, match='both "system-reserved" and "system-reserved-compressible" cannot be'):
        Node(read_settings(given, "kubelet"), ONE)


@pytest.mark.parametrize("enforced", [[], ["pods"], ["none"]])
def test_nothing_to_enforce_needs_no_cgroup(enforced: list[str]) -> None:
    """An empty list is what `none` is."""
    assert Node(read_settings({"enforceNodeAllocatable": enforced}, "kubelet"), ONE).allocatable
