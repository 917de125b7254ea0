"""What decides beside the kubelet's own managers, as a scenario names it: devices of the node, CPU plugins, adjusters
between create and start, and CPUs that a DRA driver hands over. Pure.

Source: ``docs/specification.md``; :mod:`toolkit.allocation.sources`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from toolkit.allocation.device.manager import Device, read_devices
from toolkit.allocation.plugins.core_classes import CoreClassPlugin, classes_by_kernel
from toolkit.allocation.sources import DRA_PREFIX, ClearCfs, adjust, with_dra_claims
from toolkit.errors import InputError
from toolkit.model.plan import Plan, QosClass
from toolkit.model.scenario import Adjustment, Scenario
from toolkit.model.topology import Topology

PCI_RESOURCE = "pci/"
"""Resource of the host's own devices: this and the first four digits of their class (``pci/0200``: Ethernet)."""


def devices_of(scenario: Scenario, topology: Topology, where: str) -> tuple[Device, ...]:
    """Return the node's devices: those of the file, or the machine's PCI devices as udev and sysfs know them.

    :raises InputError: a malformed device, or one on a node that the machine does not have.
    """
    if scenario.devices_of_host:
        return host_devices(topology)
    found = read_devices(list(scenario.devices), f"{where}: devices")
    nodes = {node.id for node in topology.kubelet.nodes}
    for device in found:
        far = set(device.numa) - nodes
        if far:
            known = ", ".join(map(str, sorted(nodes)))
            raise InputError(f"{where}: devices", f"{device.id[:60]!r} on NUMA node {min(far)}", f"one of {known}")
    return found


def homeless(scenario: Scenario, topology: Topology) -> str | None:
    """Return which devices that pods need, or NUMA nodes of a scenario's devices, the machine does not have.

    ``None``: it has them all. Pods that are to be refused may ask for more.
    """
    if scenario.devices_of_host:
        devices = host_devices(topology)
        found = Counter(device.resource for device in devices)
        asked = _asked(scenario)
        few = next((name for name in sorted(asked) if found[name] < asked[name]), None)
        if few is None and scenario.requires.device_nodes:
            few = next((one.resource for one in devices if one.resource in asked and not one.numa), None)
            return few and f"needs the NUMA node of every PCI device {few} (the firmware does not name it)"
        return few and f"needs {asked[few]} PCI devices {few} (this machine has {found[few]})"
    wanted = {node for device in read_devices(list(scenario.devices), "devices") for node in device.numa}
    far = sorted(wanted - {node.id for node in topology.kubelet.nodes})
    return f"needs NUMA node {far[0]} for its devices" if far else None


def _asked(scenario: Scenario) -> Counter[str]:
    """Count the host's own devices that the containers of admitted pods ask for, by resource."""
    total: Counter[str] = Counter()
    for pod in scenario.pods:
        if pod["metadata"]["name"] in scenario.rejected_pods:
            continue
        for container in pod["spec"].get("containers", ()):
            limits = container.get("resources", {}).get("limits", {})
            total.update({name: int(amount) for name, amount in limits.items() if name.startswith(PCI_RESOURCE)})
    return total


def host_devices(topology: Topology) -> tuple[Device, ...]:
    """Return the machine's PCI devices, a resource for each class; -1 means that the firmware names no node."""
    return tuple(
        Device(
            resource=f"{PCI_RESOURCE}{(one.pci_class or '').removeprefix('0x')[:4] or 'none'}",
            id=one.bdf,
            numa=(one.numa_node,) if one.numa_node is not None and one.numa_node >= 0 else (),
        )
        for one in topology.pci
    )


def plugins_of(scenario: Scenario, topology: Topology) -> dict[str, dict[str, Any]]:
    """Return the CPU plugins with their settings: core classes that a scenario does not list are the kernel's.

    Without core types of the kernel's the plugin guesses them by the number of threads.
    """
    plugins = dict(scenario.cpu_plugins)
    own = plugins.get(CoreClassPlugin.name)
    if own is not None and "classes" not in own and topology.core_types:
        named = classes_by_kernel(topology.core_types)
        plugins[CoreClassPlugin.name] = {**own, "classes": {name: str(cpus) for name, cpus in named.items()}}
    return plugins


def refuse_with_changes(scenario: Scenario, where: str) -> None:
    """Refuse a scenario whose pods change while these decide: nothing says what they would do.

    :raises InputError: departures, resizes, visits or a restart beside one of these keys.
    """
    keys = {
        "devices": scenario.devices or scenario.devices_of_host,
        "cpuPlugins": scenario.cpu_plugins,
        "adjusters": scenario.adjusters,
        "draClaims": scenario.dra_claims,
    }
    kinds = ("departures", "resizes", "leaves", "kubelet_restart")
    changes = next((kind for kind in kinds if getattr(scenario, kind) not in ((), None)), "")
    named = next((key for key, value in keys.items() if value), "")
    if changes and named:
        raise InputError(where, f"{to_camel(changes)} and {named}", "one of them")


def decided_beside(plan: Plan, scenario: Scenario) -> Plan:
    """Return the plan as containers start with it: after the DRA driver, and after the adjusters.

    :raises InputError: claims that overlap, are not free or name a container that does not run.
    """
    if scenario.dra_claims:
        plan = with_dra_claims(plan, environments(scenario.dra_claims))
    if not scenario.adjusters:
        return plan
    return adjust(plan, [_adjuster(one) for one in scenario.adjusters])


def environments(claims: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the environment that a DRA driver gives to each container."""
    return {name: [f"{DRA_PREFIX}{uid}={cpus}" for uid, cpus in own.items()] for name, own in claims.items()}


def _adjuster(asked: Adjustment) -> ClearCfs:
    return ClearCfs(qos_classes=frozenset(QosClass(name) for name in asked.qos_classes), name=asked.name)
