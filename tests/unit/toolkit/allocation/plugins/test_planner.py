"""Plans with CPU plugins, and plans that say where a kubelet breaks its own promise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from toolkit.allocation.machine import Machine
from toolkit.allocation.planner import plan
from toolkit.allocation.plugins.protocol import BasePlugin
from toolkit.allocation.plugins.registry import BUILT_IN, Factory
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import read_settings
from toolkit.kubernetes.pod import Pod
from toolkit.kubernetes.pod_reader import read_pod
from toolkit.model.plan import Plan

# Two performance cores with two threads (0-3), four efficiency cores with one (4-7).
HYBRID = Machine.from_vector(
    {
        "cpus": [[cpu, cpu // 2 if cpu < 4 else cpu, 0, 0, 0] for cpu in range(8)],
        "numa": [{"id": 0, "memory": 1 << 34}],
    },
    "hybrid",
)


def pod(name: str, cpus: str) -> Pod:
    """Return a Guaranteed pod with one container."""
    resources = {"limits": {"cpu": cpus, "memory": "64Mi"}}
    spec = {"containers": [{"name": "main", "resources": resources}]}
    return read_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, "pod")


def planned(policy: str, **options: object) -> Plan:
    """Return the plan of a database and a logger."""
    config = read_settings({"cpuManagerPolicy": policy, "reservedSystemCPUs": "7"}, "kubelet")
    return plan([pod("db", "2"), pod("logs", "2")], config, HYBRID, **options)  # type: ignore[arg-type]


def test_a_plugin_places_containers_by_core_class() -> None:
    """With the core class plugin the database gets performance cores and the logger efficiency cores."""
    classes = {"required": {"db": "performance", "logs": "efficiency"}}

    found = {
        one.name: str(one.containers[0].cpus) for one in planned("static", cpu_plugins={"core-classes": classes}).pods
    }

    assert found == {"db": "0-1", "logs": "4-5"}


def test_pods_that_require_a_class_are_served_first() -> None:
    """Sort: the logger came first and could have gone elsewhere; the plan keeps the order of the pods."""
    pods = [pod("logs", "4"), pod("db", "4")]
    config = read_settings({"cpuManagerPolicy": "static", "reservedSystemCPUs": "7"}, "kubelet")
    classes = {"required": {"db": "performance"}, "preferred": {"logs": "performance"}}

    made = plan(pods, config, HYBRID, cpu_plugins={"core-classes": classes})

    assert [(one.name, one.admitted) for one in made.pods] == [("logs", False), ("db", True)]
    assert str(made.pods[1].containers[0].cpus) == "0-3"


class Forgetful(BasePlugin):
    """Loses the pods that wait."""

    name = "forgetful"

    def sort(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        return pods[:1]


def test_a_plugin_that_loses_a_pod_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a pod is served never, or twice, is no decision."""
    monkeypatch.setitem(dict_of_plugins(), "forgetful", lambda machine, settings: Forgetful())

    with pytest.raises(InputError, match=r"CPU plugin forgetful: sort\(\) returned 1 pods"):
        planned("static", cpu_plugins={"forgetful": {}})


def dict_of_plugins() -> dict[str, Factory]:
    """Return the built-in plugins."""
    assert isinstance(BUILT_IN, dict)
    return BUILT_IN


def test_an_unknown_plugin_is_an_input_error() -> None:
    """The message lists the plugins that exist."""
    with pytest.raises(InputError, match="core-classes"):
        planned("static", cpu_plugins={"absent": {}})


def test_plugins_need_the_static_policy() -> None:
    """Under policy none nothing chooses CPUs, so a plugin would silently do nothing."""
    with pytest.raises(InputError, match="static"):
        planned("none", cpu_plugins={"core-classes": {}})


def test_a_reserved_cpu_that_is_given_away_is_named() -> None:
    """On a machine with an offline sibling the kubelet hands out a reserved CPU: the plan says so."""
    rows = [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [2, 2, 0, 0, 0], [3, 0, 0, 0, 0], [4, 1, 0, 0, 0]]
    machine = Machine.from_vector({"cpus": rows, "numa": [{"id": 0, "memory": 1 << 34}]}, "lone sibling")
    config = read_settings({"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}, "kubelet")

    found = plan([pod("a", "1"), pod("b", "2")], config, machine)

    assert [warning for warning in found.warnings if "reserved" in warning] == [
        "kubelet defect: reserved CPUs 0 were given to pod b"
    ]
