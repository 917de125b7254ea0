"""What is not known of a node where a part of it was not read."""

from __future__ import annotations

from toolkit.model.node_reading import MissingPart

COSTS = {
    "config": "reserved CPUs, strictness, driver and reconcile period are not known",
    "config_fields": "what was meant by it is not in force",
    "cpu_state": "which CPUs were promised is not known, nor the quotas: owners of CPUs have none",
    "memory_state": "which memory nodes were promised is not known",
    "names": "nothing is promised about their CPUs",
    "containers": "what the kubelet asked the runtime for is not known: drift cannot be distinguished from lag",
    "pods": "ended pods are not known; requests are those that the kubelet allocated or a static pod's manifest has, "
    "else quotas and weights are what the runtime was asked for",
    "pod_folders": "which pods wait for their volumes is not known, so no CPU is called leaked",
    "pod_resources": "the pod-resources API is not compared",
    "cgroups": "what is in force is not known; paths are those that the runtime was given",
    "metrics": "the kubelet's own metrics are not compared",
    "threads": "thread masks are not known",
    "reserved_cpus": "kubeReserved and systemReserved give an amount, which CPUs these are is not known",
    "sysfs": "which CPUs are online is known of cgroups alone; on which core and NUMA node each lies is not known",
    "times": "how long after the cgroups the runtime was asked is not known: it is taken to be long",
    "allocated_pods": "resizes are known by the status of pods alone, ephemeral containers by the list of pods alone",
    "actuated_pods": "whether a resize is under way is known by the status of pods alone",
    "alignments": "what the options promise about cores and NUMA nodes is not known",
    "version": "which gates are on by default is known of each version, the rest is as the modelled one decides",
    "pinned": "nothing is promised of it; what these programs pin is judged by what else is known",
    "parents": "nothing is promised about the cgroups of pods and QoS classes",
}


def with_cost(part: str, reason: str) -> MissingPart:
    """Return a part that is missing, with why, and what is not known because of that."""
    return MissingPart(part=part, reason=f"{reason}: {COSTS.get(part, 'it is left out')}")
