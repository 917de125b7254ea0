"""In-place resize, adjusters between create and start, and CPUs claimed through DRA."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.allocation.node_builder import AFFINITY, GATE, GIB, both, config, machine, pod
from toolkit.allocation.node import Node
from toolkit.allocation.planner import plan
from toolkit.allocation.resize import STATIC_CPU, STATIC_MEMORY, Resize, ResizeStatus, resize
from toolkit.allocation.sources import ClearCfs, adjust, read_dra_cpus, with_dra_claims
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.model.claims import NO_QUOTA, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.plan import QosClass
from toolkit.model.scenario import ResizeBehaviour

# Resize


def node(**fields: Any) -> Node:
    """A started node with one exclusive pod ``db`` of 2 CPUs."""
    made = Node(config(**fields), machine())
    assert made.admit(pod("db", both("2"))).admitted
    return made


def planned(subject: Node, wanted: Pod, promised: dict[str, CpuSet] | None = None) -> Resize:
    """Resize as KEP-5554 plans it."""
    return resize(subject, wanted, promised, behaviour=ResizeBehaviour.KEP_5554)


def test_resize_beside_static_managers_is_infeasible() -> None:
    """K-gate: a Guaranteed pod cannot be resized unless the gates say so, with the kubelet's words; what no manager
    holds can.
    """
    subject = node()
    before = subject.cpu_state
    assert resize(subject, pod("db", both("3")))[:2] == (ResizeStatus.INFEASIBLE, STATIC_CPU)
    assert resize(subject, pod("db", both("2", "64Gi"))).status is ResizeStatus.FORBIDDEN
    assert subject.cpu_state == before
    kept = subject.active["db"].containers[0]
    assert (kept.request("cpu").milli, kept.request("memory").value) == (2000, GIB)
    assert resize(node(), pod("db", both("2", "2Gi"))).status is ResizeStatus.DONE
    memory = Node(
        read_settings(
            {
                "memoryManagerPolicy": "Static",
                "kubeReserved": {"memory": "1Gi"},
                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
            },
            "kubelet",
        ),
        machine(),
    )
    memory.admit(pod("db", both("2")))
    assert resize(memory, pod("db", both("2", "2Gi")))[:2] == (ResizeStatus.INFEASIBLE, STATIC_MEMORY)
    assert resize(memory, pod("db", both("3"))).status is ResizeStatus.DONE


def test_v1_36_takes_a_resize_with_the_gate_but_moves_no_container() -> None:
    """The gate lets the request pass: more shares, the same CPUs, and the pool stays as it was (F65)."""
    subject = node(**GATE)
    before = (subject.cpu_state.cpus_of("db", "c0"), subject.cpu_state.default)

    answers = [resize(subject, pod("db", both(cpu))) for cpu in ("6", "1")]

    assert [(answer.status, answer.cpus) for answer in answers] == [(ResizeStatus.DONE, {})] * 2
    assert (subject.cpu_state.cpus_of("db", "c0"), subject.cpu_state.default) == before
    assert subject.active["db"].containers[0].request("cpu").milli == 1000


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_v1_36_keeps_a_resize_waiting_where_topology_must_fit(policy: str) -> None:
    """CPUs of another number than requested give no hint, which these policies refuse."""
    subject = node(**GATE, topologyManagerPolicy=policy)

    assert resize(subject, pod("db", both("4"))) == (ResizeStatus.DEFERRED, AFFINITY, {})
    assert resize(subject, pod("db", both("2", "2Gi"))).status is ResizeStatus.DONE


def test_v1_36_keeps_a_resize_to_half_a_core_waiting() -> None:
    """full-pcpus-only is asked before the CPUs that are there are looked for."""
    subject = node(**GATE, cpuManagerPolicyOptions={"full-pcpus-only": "true"})

    answer = resize(subject, pod("db", both("3")))

    assert answer.status is ResizeStatus.DEFERRED
    assert "SMT Alignment Error" in answer.message


def test_resize_grows_around_the_promised_cpus_and_shrinks_back_to_them() -> None:
    """KEP-5554: 2 -> 6 -> 4 keeps the CPUs of the creation; below them is infeasible."""
    subject = node(**GATE)
    promised = subject.cpu_state.cpus_of("db", "c0")
    grown = planned(subject, pod("db", both("6")))
    after = subject.cpu_state.cpus_of("db", "c0")
    shrunk = planned(subject, pod("db", both("4")), {"c0": promised})

    assert (grown.status, shrunk.status) == (ResizeStatus.DONE, ResizeStatus.DONE)
    assert promised < after
    assert promised <= shrunk.cpus["c0"] < after
    assert subject.cpu_state.default | subject.cpu_state.owned() == machine().cpus
    below = planned(subject, pod("db", both("1")), {"c0": promised})
    assert below.status is ResizeStatus.INFEASIBLE


def test_resize_waits_for_others_and_gives_up_on_the_impossible() -> None:
    """Too much for now is deferred; the API server takes neither more than the node has nor another QoS class."""
    subject = node(**GATE)
    subject.admit(pod("other", both("10")))

    assert planned(subject, pod("db", both("6"))).status is ResizeStatus.DEFERRED
    assert planned(subject, pod("db", both("40"))).status is ResizeStatus.FORBIDDEN
    assert planned(subject, pod("db", {"requests": {"cpu": "1"}})).status is ResizeStatus.INVALID
    assert planned(subject, pod("stranger", both("2"))).status is ResizeStatus.INVALID


def test_resize_keeps_to_one_node_under_single_numa_node() -> None:
    """Growing over a second node breaks the policy's promise."""
    subject = node(**GATE, topologyManagerPolicy="single-numa-node")

    assert planned(subject, pod("db", both("6"))).status is ResizeStatus.DONE
    assert planned(subject, pod("db", both("8"))).status is ResizeStatus.INFEASIBLE


def test_a_pod_that_is_not_guaranteed_is_resized_freely() -> None:
    """The static managers do not hold what they never gave."""
    subject = node()
    burst = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    subject.admit(pod("web", burst))

    assert (
        resize(subject, pod("web", {"requests": {"cpu": "200m"}, "limits": {"cpu": "2"}})).status is ResizeStatus.DONE
    )


# Adjusters and DRA claims


def test_clearcfs_takes_quotas_away_by_qos_class() -> None:
    """The NRI example: before the start, containers of the chosen classes lose their quota."""
    made = adjust(plan([pod("g", both("500m")), pod("b", {"limits": {"cpu": "1"}})], config(), machine()), [ClearCfs()])
    guaranteed, burstable = (p.containers[0] for p in made.pods)

    assert (guaranteed.quota_us, burstable.quota_us) == (NO_QUOTA, 100_000)
    assert "adjusted before start by clearcfs: quota_us 50000 -> -1" in guaranteed.reasons


def test_every_adjuster_is_asked() -> None:
    """Two of them, each for a class of its own."""
    made = plan([pod("g", both("500m")), pod("b", {"limits": {"cpu": "1"}})], config(), machine())
    asked = [
        ClearCfs(qos_classes=frozenset({kind}), name=kind.value) for kind in (QosClass.GUARANTEED, QosClass.BURSTABLE)
    ]

    assert [one.containers[0].quota_us for one in adjust(made, asked).pods] == [NO_QUOTA, NO_QUOTA]


def test_dra_cpus_are_exclusive_and_leave_the_pool() -> None:
    """A claim's CPUs belong to its container; shared containers lose them."""
    made = plan([pod("dra", {}), pod("web", {})], config(), machine())
    claimed = with_dra_claims(made, {"dra/c0": ["PATH=/bin", "DRA_CPUSET_uid1=2-3", "DRA_CPUSET_uid2=5"]})
    owner, other = (p.containers[0] for p in claimed.pods)

    assert (str(owner.cpus), owner.isolation) == ("2-3,5", Isolation.CONTAINER)
    assert str(other.cpus) == str(claimed.default_cpus) == "0-1,4,6-15"


@pytest.mark.parametrize(
    "environment",
    [["DRA_CPUSET_a=x"], ["DRA_CPUSET_a"], ["DRA_CPUSET_=1"], ["DRA_CPUSET_a="], ["DRA_CPUSET_a=1", "DRA_CPUSET_b=1-2"],
     ["DRA_CPUSET_a=1", "DRA_CPUSET_a=2"]],
)  # fmt: skip
def test_malformed_dra_environments_are_refused(environment: list[str]) -> None:
    """Malformed, empty, repeated and overlapping claims are bad input."""
    with pytest.raises(InputError):
        read_dra_cpus(environment, "container")


def test_dra_claims_cannot_take_owned_cpus_or_be_shared() -> None:
    """CPUs of the CPU Manager's containers are not free, and a claim has one owner."""
    made = plan([pod("db", both("2")), pod("a", {}), pod("b", {})], config(), machine())

    for environments in ({"a/c0": ["DRA_CPUSET_x=1"]}, {"a/c0": ["DRA_CPUSET_x=2"], "b/c0": ["DRA_CPUSET_x=3"]},
                         {"a/c0": ["DRA_CPUSET_x=2-3"], "b/c0": ["DRA_CPUSET_y=3"]},
                         {"absent/c0": []}, {"db/c0": ["DRA_CPUSET_x=2"]}):  # fmt: skip
        with pytest.raises(InputError):
            with_dra_claims(made, environments)
