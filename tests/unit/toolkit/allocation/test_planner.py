"""Plans: the seeds' examples, alignments, reasons, refusals, pod-level budgets and devices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import BUDGET, GIB, PLR, STATIC_MEMORY, both, config, machine, pod
from toolkit.allocation.device.manager import read_devices
from toolkit.allocation.machine import Machine
from toolkit.allocation.planner import plan
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import Pod
from toolkit.model.claims import NO_QUOTA, Alignment, Isolation, Preference
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import Plan, QosClass
from toolkit.model.serde import from_json, to_json


def test_exclusive_and_shared_containers() -> None:
    """A whole Guaranteed request owns CPUs and has no quota; the rest shares what is left, reserved CPUs included."""
    made = plan([pod("db", both("2")), pod("web", both("1500m")), pod("batch", {})], config(), machine())
    db, web, batch = (p.containers[0] for p in made.pods)

    assert (str(db.cpus), db.isolation, db.quota_us) == ("1,9", Isolation.CONTAINER, NO_QUOTA)
    assert made.pods[0].quota_us == NO_QUOTA
    assert str(web.cpus) == str(batch.cpus) == str(made.default_cpus) == "0,2-8,10-15"
    assert (web.isolation, web.quota_us) == (Isolation.HOST, 150_000)
    assert (made.pods[2].qos_class, made.pods[2].shares) == (QosClass.BEST_EFFORT, 2)


def test_the_shared_pool_is_the_one_after_the_last_pod() -> None:
    """A container that came first follows the pool as it shrinks."""
    made = plan([pod("web", {}), pod("db", both("2"))], config(), machine())

    assert made.pods[0].containers[0].cpus == made.default_cpus
    assert made.default_cpus.isdisjoint(made.pods[1].containers[0].cpus)


def test_strict_reservation_keeps_every_container_off() -> None:
    """With strict-cpu-reservation shared containers do not get the reserved CPUs."""
    made = plan([pod("web", {})], config(cpuManagerPolicyOptions={"strict-cpu-reservation": "true"}), machine())

    assert made.strict_reservation
    assert str(made.reserved_cpus) == "0,8"
    assert str(made.pods[0].containers[0].cpus) == "1-7,9-15"


def test_policy_none_hands_nothing_over() -> None:
    """Every container may run anywhere, with its quota."""
    made = plan([pod("db", both("2"))], NodeConfig(), machine())
    container = made.pods[0].containers[0]

    assert (container.cpus, container.assigned, container.quota_us) == (CpuSet(), None, 200_000)
    assert made.default_cpus == machine().cpus


def test_a_kubelet_without_the_gate_does_not_look_at_a_budget() -> None:
    """Quota, weight and QoS class come from the containers alone."""
    pods = [pod("db", both("1"), {}, resources={"requests": {"cpu": "4"}, "limits": {"cpu": "4"}})]
    off = {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}
    made, without = (plan(pods, config(featureGates=gates), machine()).pods[0] for gates in ({}, off))

    assert (made.quota_us, made.shares, made.containers[1].quota_us) == (400_000, 4096, 400_000)
    assert (without.quota_us, without.shares, without.containers[1].quota_us) == (NO_QUOTA, 1024, NO_QUOTA)


def test_an_empty_pool_is_warned_about() -> None:
    """Strict reservation and exclusive containers can leave nothing for the others."""
    strict = config(cpuManagerPolicyOptions={"strict-cpu-reservation": "true"})
    made = plan([pod("big", both("14")), pod("web", {})], strict, machine())

    assert made.pods[1].containers[0].cpus == CpuSet()
    assert any("shared pool is empty" in text for text in made.warnings)


def test_a_container_that_gets_too_few_cpus_is_warned_about() -> None:
    """CPU 0 is offline, so half-free cores pass for whole ones, and CPU 6 counts twice: four CPUs for five.

    Only node 1 has the memory. There the sidecar has CPU 4, core 4-5 is taken whole for its free 5, then 6; away from
    the node core 6-7 is half free and taken whole.
    Source: kubernetes v1.36.2, pkg/kubelet/cm/cpumanager/policy_static.go, ``allocateCPUs``.
    """
    offline = Machine.from_vector(
        {
            "cpus": [[cpu, cpu // 2, 0, cpu // 4, 0] for cpu in range(1, 8)],
            "numa": [{"id": 0, "memory": GIB}, {"id": 1, "memory": 16 * GIB}],
        }
    )
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": both("1", "2Gi")}
    settings = config(**STATIC_MEMORY, reservedSystemCPUs="1", topologyManagerPolicy="best-effort")
    made = plan([pod("net", both("5", "2Gi"), initContainers=[sidecar])], settings, offline)

    assert [str(container.cpus) for container in made.pods[0].containers] == ["4", "4-7"]
    assert "kubelet defect: container net/c0 asks for 5 CPUs and gets 4: 4-7" in made.warnings


def test_alignments_that_the_options_promise() -> None:
    """Whole cores under full-pcpus-only, one node under single-numa-node; a cache is preferred, not promised."""
    options = {"full-pcpus-only": "true", "prefer-align-cpus-by-uncorecache": "true"}
    fields: dict[str, Any] = {"cpuManagerPolicyOptions": options, "topologyManagerPolicy": "single-numa-node"}
    made = plan([pod("db", both("4")), pod("web", both("500m"))], config(**fields), machine())

    assert made.pods[0].containers[0].alignments == (Alignment.SMT, Alignment.NUMA)
    assert made.pods[0].containers[0].preferences == (Preference.LLC,)
    assert made.pods[1].containers[0].alignments == ()


def test_refusals_are_explained() -> None:
    """A refused pod has the kubelet's reason and message, and a sentence of ours."""
    strict = config(topologyManagerPolicy="single-numa-node", cpuManagerPolicyOptions={"full-pcpus-only": "true"})
    made = plan([pod("odd", both("3")), pod("wide", both("10"))], strict, machine())

    assert [p.reason for p in made.pods] == ["SMTAlignmentError", "TopologyAffinityError"]
    assert "whole cores" in made.pods[0].reasons[0]
    assert "on one NUMA node" in made.pods[1].reasons[0]


def test_every_decision_has_a_reason() -> None:
    """CPUs, quota and weight are explained for every container, memory and topology where they are managed."""
    fields: dict[str, Any] = {
        "memoryManagerPolicy": "Static",
        "kubeReserved": {"memory": "1Gi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        "topologyManagerPolicy": "restricted",
    }
    made = plan([pod("db", both("2"), both("500m")), pod("web", {})], config(**fields), machine())
    exclusive, fractional = (c.reasons for c in made.pods[0].containers)

    for word in (
        "CPUs 1,9",
        "topology: NUMA node 0",
        "memory: the Memory Manager",
        "quota: none",
        "weight: cpu.shares",
    ):
        assert any(line.startswith(word) for line in exclusive), word
    assert any("not a whole number" in line for line in fractional)
    assert any("only Guaranteed pods" in line for line in made.pods[1].containers[0].reasons)


def test_a_kubelet_that_would_not_start_is_bad_input() -> None:
    """The message is the kubelet's, with the stage."""
    with pytest.raises(InputError, match=r"does not start \(cpu-manager\): unknown policy"):
        plan([], config(cpuManagerPolicy="dynamic"), machine())
    with pytest.raises(InputError, match="twice"):
        plan([pod("a", {}), pod("a", {})], config(), machine())


def test_plans_survive_json() -> None:
    """A plan read back from its JSON text is the same plan."""
    made = plan([pod("db", both("2")), pod("web", {})], config(), machine())

    assert from_json(Plan, to_json(made), "plan") == made


def test_kep_5526_mixed_allocation() -> None:
    """KEP-5526 example 2: an exclusive slice of 2, and the other 2 shared by the rest of the pod, with a quota."""
    made = plan([pod("mixed", both("2", "2Gi"), {}, {}, resources=BUDGET)], config(**PLR), machine())
    own, left, right = made.pods[0].containers

    assert made.pods[0].cpus == own.cpus | left.cpus
    assert left.cpus == right.cpus
    assert own.cpus.isdisjoint(left.cpus)
    assert (own.isolation, left.isolation) == (Isolation.CONTAINER, Isolation.POD)
    assert (own.quota_us, left.quota_us, made.pods[0].quota_us) == (NO_QUOTA, 400_000, 400_000)


def test_kep_5526_shared_only_and_empty_pool() -> None:
    """KEP-5526 examples 1 and 3: everything shared; and a budget used up by exclusive containers is refused."""
    made = plan([pod("shared", {}, {}, resources=BUDGET), pod("full", both("4", "2Gi"), {}, resources=BUDGET)],
                config(**PLR), machine())  # fmt: skip

    assert [str(c.cpus) for c in made.pods[0].containers] == [str(made.pods[0].cpus)] * 2
    assert made.pods[1].reason == "TopologyAffinityError"


def test_kep_5526_container_scope() -> None:
    """In container scope only the Guaranteed container is exclusive, the others run in the node's pool."""
    fields = {**PLR, "topologyManagerScope": "container"}
    made = plan([pod("mixed", both("2", "2Gi"), {}, resources=BUDGET)], config(**fields), machine())
    own, other = made.pods[0].containers

    assert (own.isolation, other.isolation) == (Isolation.CONTAINER, Isolation.HOST)
    assert other.cpus == made.default_cpus


def test_without_the_gate_a_budget_means_no_exclusive_cpus() -> None:
    """Pod-level pods are admitted and share, even if their containers look Guaranteed."""
    made = plan([pod("mixed", both("2", "2Gi"), resources=BUDGET)], config(), machine())

    assert made.pods[0].admitted
    assert made.pods[0].containers[0].isolation is Isolation.HOST


# Devices


def test_devices_pull_cpus_to_their_node() -> None:
    """With a NIC on node 1 the CPUs come from node 1, though node 0 is free."""
    devices = read_devices([{"resource": "example.com/nic", "id": "eth1", "numa": 1}], "devices")
    wanted = pod("net", both("2", **{"example.com/nic": "1"}))
    made = plan([wanted, wanted_again()], config(topologyManagerPolicy="single-numa-node"), machine(), devices=devices)

    assert str(made.pods[0].containers[0].cpus) == "4,12"
    assert any("devices: eth1 of example.com/nic" in line for line in made.pods[0].containers[0].reasons)
    assert not made.pods[1].admitted, "the only NIC is taken"


def wanted_again() -> Pod:
    """A second pod that wants the NIC."""
    return pod("net2", both("2", **{"example.com/nic": "1"}))


@pytest.mark.parametrize("data", [{}, [3], [{"resource": "nic", "id": "a"}],
                                  [{"resource": "a/b", "id": "x", "numa": "0"}],
                                  [{"resource": "a/b", "id": "x"}] * 2])  # fmt: skip
def test_bad_device_lists_are_refused(data: object) -> None:
    """One line for whatever is wrong."""
    with pytest.raises(InputError):
        read_devices(data, "devices")


@pytest.mark.parametrize(
    ("fields", "resources", "spec", "container", "whole"),
    [
        ({}, {"limits": {"cpu": "0", "memory": "1Gi"}}, {}, "a CPU limit of 0 is no limit", "not every container"),
        ({}, {}, {}, "it has no CPU limit", "not every container"),
        ({"cpuCFSQuota": False}, both("500m"), {}, "CFS quotas are off", "CFS quotas are off"),
        ({"cpuCFSQuota": False}, both("2"), {}, "its CPUs are exclusive", "exclusive CPUs"),
        (
            {"cpuCFSQuota": False, "featureGates": {"DisableCPUQuotaWithExclusiveCPUs": False}},
            both("2"),
            {},
            "CFS quotas are off",
            "CFS quotas are off",
        ),
        ({}, {"limits": {"cpu": "0"}}, {"resources": both("500m")}, "(the pod's CPU limit)", "50000 us per 100000 us"),
    ],
)
def test_why_there_is_no_quota(
    fields: dict[str, Any], resources: dict[str, Any], spec: dict[str, Any], container: str, whole: str
) -> None:
    """The reason is the one that holds: the container's own CPUs, the node's switch, a limit that is none."""
    (one,) = plan([pod("p", resources, **spec)], config(**fields), machine()).pods

    (own,) = (line for line in one.containers[0].reasons if line.startswith("quota: "))
    (together,) = (line for line in one.reasons if line.startswith("quota: "))
    assert container in own
    assert whole in together
