"""Scenario + machine -> plan: the thin step that hands a scenario's documents to the allocation model."""

from __future__ import annotations

from toolkit.allocation.machine import Machine
from toolkit.allocation.planner import plan
from toolkit.errors import HostUnsupportedError
from toolkit.model.node_config import read_settings
from toolkit.model.plan import Plan
from toolkit.model.pod_reader import read_pod
from toolkit.model.scenario import Scenario
from toolkit.model.topology import Topology


def machine_of(topology: Topology) -> Machine:
    """Return the machine as the kubelet's discovery sees it.

    :raises HostUnsupportedError: discovery gives up on this machine, so a kubelet would not start here.
    """
    if topology.kubelet.error is not None:
        raise HostUnsupportedError(f"the kubelet's hardware discovery fails on this machine: {topology.kubelet.error}")
    return Machine.from_topology(topology.kubelet)


def plan_scenario(scenario: Scenario, topology: Topology) -> Plan:
    """Compute what the kubelet would decide for the scenario on this machine.

    :raises InputError: a pod or the configuration is wrong, or no kubelet would start with it.
    """
    config = read_settings(scenario.kubelet, f"scenario {scenario.name}: kubelet")
    pods = [read_pod(pod, f"scenario {scenario.name}: pod {i}") for i, pod in enumerate(scenario.pods)]
    return plan(pods, config, machine_of(topology))
