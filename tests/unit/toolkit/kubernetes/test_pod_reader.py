"""Pods as users write them: defaults, QoS classes, roles, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.toolkit.kubernetes.pod_manifests import manifest, res
from toolkit.errors import InputError
from toolkit.kubernetes.pod import CPU, MEMORY, Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.plan import ContainerRole, QosClass


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, QosClass.BEST_EFFORT),
        ({"limits": {"memory": "200Mi"}, "requests": {"memory": "100Mi"}}, QosClass.BURSTABLE),
        (
            {"limits": {"memory": "200Mi", "cpu": "2"}, "requests": {"memory": "100Mi", "cpu": "1"}},
            QosClass.BURSTABLE,
        ),
        (
            {"limits": {"memory": "200Mi", "cpu": "2"}, "requests": {"memory": "200Mi", "cpu": "2"}},
            QosClass.GUARANTEED,
        ),
        (
            {"limits": {"memory": "200Mi", "cpu": "1.5"}, "requests": {"memory": "200Mi", "cpu": "1.5"}},
            QosClass.GUARANTEED,
        ),
        ({"limits": {"memory": "200Mi", "cpu": "2"}}, QosClass.GUARANTEED),
        ({"requests": {"cpu": "1"}}, QosClass.BURSTABLE),
        ({"limits": {"cpu": "1"}}, QosClass.BURSTABLE),
    ],
)
def test_the_documentations_examples_have_their_qos_class(resources: dict[str, Any], qos: QosClass) -> None:
    """The six nginx examples of "Policies for assigning CPUs to Pods", and two more."""
    assert read_pod(manifest({"resources": resources}), "pod").qos_class is qos


def test_one_container_without_limits_makes_a_pod_burstable() -> None:
    """Every container, init containers too, must be limited in CPU and memory for Guaranteed."""
    full = res("1", "1Gi", cpu="1", memory="1Gi")

    assert read_pod(manifest(full, full), "pod").qos_class is QosClass.GUARANTEED
    assert read_pod(manifest(full, {}), "pod").qos_class is QosClass.BURSTABLE
    assert read_pod(manifest(full, init=[{"name": "i"}]), "pod").qos_class is QosClass.BURSTABLE


def test_requests_default_to_limits() -> None:
    """A container with limits only requests as much."""
    container = read_pod(manifest({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}), "pod").containers[0]

    assert str(container.request(CPU)) == "2"
    assert container.guaranteed


def test_roles_and_order() -> None:
    """Init containers come first; restartPolicy Always makes one a sidecar."""
    pod = read_pod(
        manifest({}, init=[{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], restartPolicy="Never"), "pod"
    )

    assert [(c.name, c.role) for c in pod.containers] == [
        ("i", ContainerRole.INIT),
        ("s", ContainerRole.SIDECAR),
        ("c0", ContainerRole.APP),
    ]


def budget(pod: Pod) -> dict[str, str]:
    """The pod-level requests as texts."""
    assert pod.resources is not None
    return {name: str(amount) for name, amount in pod.resources.requests.items()}


def test_pod_level_requests_default_to_the_containers_then_to_the_limits() -> None:
    """KEP-2837: what containers request together comes first, the limit where none requests it."""
    pod = read_pod(manifest(res("1"), res("500m"), resources={"limits": {"cpu": "4", "memory": "2Gi"}}), "pod")

    assert budget(pod) == {"cpu": "1500m", "memory": "2Gi"}
    assert pod.qos_class is QosClass.BURSTABLE
    assert pod.pod_level


def test_a_pod_level_budget_alone_decides_the_qos_class() -> None:
    """A budget with requests equal to limits makes the pod Guaranteed whatever the containers ask for."""
    pod = read_pod(
        manifest({}, res("1"), resources={"limits": {"cpu": "4", "memory": "2Gi"}, "requests": {"cpu": "4"}}), "p"
    )

    assert pod.qos_class is QosClass.GUARANTEED
    assert not any(container.guaranteed for container in pod.containers)


def test_pod_level_hugepage_limits_default_to_the_containers() -> None:
    """Hugepages are never overcommitted: the pod's limit and request are the containers' sum."""
    huge = {"resources": {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}}}
    pod = read_pod(manifest(huge, huge, resources={"limits": {"cpu": "4", "memory": "2Gi"}}), "pod")

    assert budget(pod)["hugepages-2Mi"] == "8Mi"


def test_quantities_arrive_in_canonical_form() -> None:
    """The API server writes 1.5Gi as 1536Mi, which has the 64-bit view that 1.5Gi has not."""
    pod = read_pod(manifest(res("1", "1.5Gi")), "pod")

    assert pod.containers[0].request(MEMORY).as_int64 == 1536 << 20


def test_numbers_are_accepted_as_yaml_reads_them() -> None:
    """``cpu: 2`` and ``cpu: 0.5`` need no quotes."""
    assert read_pod(manifest(res(2)), "pod").containers[0].request(CPU).milli == 2000
    assert read_pod(manifest(res(0.5)), "pod").containers[0].request(CPU).milli == 500


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, ".metadata: nothing; expected a mapping with the pod's name"),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x" * 200}, "spec": {"containers": [{}]}},
            f".metadata.uid: '{'x' * 59}; expected a Kubernetes name",
        ),
        (manifest({"name": "a\n"}), ".spec.containers[0].name: 'a\\n'; expected a Kubernetes name"),
        (manifest({}, init=[5]), ".spec.initContainers[0]: 5; expected a container"),  # type: ignore[list-item]
        (
            manifest({"resources": {"limits": {"cpu": "1", "memory": []}}}),
            ".spec.containers[0].resources.limits.memory: a list; expected a quantity such as 500m or 1Gi",
        ),
        (manifest(*[{}] * 1025), ".spec.containers: 1025 containers; expected at most 1024"),
        (manifest({}, resources=[1]), ".spec.resources: a list; expected requests and limits"),
    ],
)
def test_the_line_of_a_bad_manifest(document: object, line: str) -> None:
    """The path as it is in the file, what was found, what is expected."""
    with pytest.raises(InputError) as raised:
        read_pod(document, "pod.yaml")

    assert str(raised.value) == f"pod.yaml{line}"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (None, "nothing"),
        ([], "a list"),
        ({"apiVersion": "v1", "kind": "Service"}, "kind 'Service'"),
        (manifest(), "no container"),
        (manifest({"name": "a"}, {"name": "a"}), "twice"),
        (manifest({"name": "A_b"}), "a Kubernetes name"),
        (manifest({"resources": {"request": {}}}), "unknown key 'request'"),
        (manifest({"resources": {"requests": {"cpus": "1"}}}), "unknown resource 'cpus'"),
        (manifest(res("-1")), "not negative"),
        (manifest(res(True)), "a quantity such as"),
        (manifest(res("1 cpu")), "regular expression"),
        (manifest(res("2", cpu="1")), "above its limit"),
        (manifest({"resources": {"requests": {"hugepages-2Mi": "2Mi"}}}), "without a limit"),
        (manifest(res("4"), resources={"requests": {"cpu": "2"}}), "covers the containers"),
        (manifest({}, resources={"limits": {"example.com/gpu": "1"}}), "cpu, memory or hugepages"),
        (manifest(res("1", cpu="8"), resources={"limits": {"cpu": "4"}}), "cpu limit 8 above the pod's 4"),
        (manifest({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}), "hugepages-2Mi without cpu and memory"),
        (manifest({}, resources={"limits": {"hugepages-2Mi": "4Mi"}}), "hugepages-2Mi without cpu and memory"),
        (manifest({"resources": {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}}), "hugepages-2Mi 3Mi; expected a mu"),
        (manifest({"resources": {"limits": {"cpu": "1", "hugepages-big": "3Mi"}}}), "no page size 'big'"),
        (manifest({"resources": {"limits": {"cpu": "1", "hugepages-0": "0"}}}), "no page size '0'"),
        (manifest({"resources": {"requests": {"example.com/gpu": "1"}}}), "example.com/gpu request without a limit"),
        (manifest({"resources": {"limits": {"example.com/gpu": "500m"}}}), "example.com/gpu 500m; expected a whole"),
        (manifest({}, init=[{"name": "i", "restartPolicy": "Sometimes"}]), "Always, Never or OnFailure"),
        (manifest({"resources": []}), "requests and limits"),
    ],
)
def test_bad_manifests_are_refused_in_one_line(document: object, problem: str) -> None:
    """The error names the place and what was expected."""
    with pytest.raises(InputError) as raised:
        read_pod(document, "pod.yaml")

    assert problem in str(raised.value)
    assert "pod.yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "document",
    [
        manifest({"resources": {"limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi", "hugepages-1Gi": "0"}}}),
        manifest({"resources": {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "2000m"}}}),
        manifest(res("1", cpu="4"), resources={"limits": {"cpu": "4"}}),
        manifest(
            res("1"),
            init=[{"name": "i", "resources": {"limits": {"cpu": "8"}, "requests": {"cpu": "1"}}}],
            resources={"limits": {"cpu": "4"}},
        ),
        manifest(res("1"), resources={"limits": {"hugepages-2Mi": "4Mi"}}),
    ],
)
def test_what_the_api_takes_is_taken(document: dict[str, Any]) -> None:
    """Bounds that are reached, and an init container's limit, which nothing holds against the pod's."""
    assert read_pod(document, "pod.yaml").invalid == ""
