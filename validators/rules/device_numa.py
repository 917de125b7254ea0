"""Rule ``device-numa``: the devices given to a container sit on the NUMA nodes of its CPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolkit.model.claims import AssignedDevice, Claim, ClaimSet, DeviceScope, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.measures import levels, words
from toolkit.model.placement import DevicePlace
from toolkit.model.verdict import Measure, Outcome, Verdict
from toolkit.timeline.saved import promised
from validators.placement import groups
from validators.placement.alignment import sets_in_force
from validators.placement.promised import Stand
from validators.queries import view
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness

ID = "device-numa"
_Sets = tuple[tuple[str, CpuSet], ...]
"""What has a place, in words, and its NUMA nodes."""


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised devices, or given some."""
    asked = [claim for claim in claims.claims if claim.devices or claim.assigned_devices]
    if not asked:
        reason = "no claim names a device"
        return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)
    return tuple(_judge(claim, evidence) if claim.devices else _assigned(claim, claims, evidence) for claim in asked)


def _judge(claim: Claim, evidence: Evidence) -> Verdict:
    machine = groups.nodes(evidence)
    places = _places(evidence)
    measures: dict[str, Measure] = {"devices_count": len(claim.devices)}
    verdict = Judgement(ID, claim.name, measures)
    if machine is None:
        return verdict(Outcome.UNDECIDED, "the machine's NUMA nodes are not known")
    sets = _node_sets(claim, evidence, machine)
    if isinstance(sets, str):
        return verdict(Outcome.UNDECIDED, sets)
    measures["nodes"] = str(sets[0][1])
    unknown: list[str] = []
    wrong: list[str] = []
    for device in claim.devices:
        place = places.get(device)
        if place is None:
            unknown.append(f"where device {device} sits was not read")
        elif not place.present:
            unknown.append(f"the kernel has no PCI device {device}")
        elif place.numa_node is not None and place.numa_node >= 0:
            measures[f"device_{device}_node"] = place.numa_node
            far = next(((name, own) for name, own in sets if place.numa_node not in own), None)
            if far is not None:
                wrong.append(f"device {device} sits on node {place.numa_node}, its {far[0]} on {far[1] or 'none'}")
        elif len(machine) > 1:
            unknown.append(f"the firmware gives no NUMA node for device {device} (numa_node -1)")
    if wrong:
        return verdict(Outcome.FAILED, "; ".join(wrong[:3]))
    if unknown:
        return verdict(Outcome.UNDECIDED, unknown[0])
    if len(machine) == 1:
        return verdict(Outcome.PASSED, f"{len(claim.devices)} devices; the machine has one node")
    return verdict(Outcome.PASSED, f"{len(claim.devices)} devices on node {sets[0][1]}, as its {sets[0][0]}")


def _places(evidence: Evidence) -> dict[str, DevicePlace]:
    return {place.bdf: place for place in evidence.devices or ()}


def _node_sets(claim: Claim, evidence: Evidence, machine: dict[int, CpuSet]) -> _Sets | str:
    """Return the nodes of each CPU set that held, or of its memory where it has no CPUs of its own."""
    if claim.cpus is None and claim.mems is not None:
        return (("memory", claim.mems),)
    return _of_cpus(claim, evidence, machine)


def _of_cpus(claim: Claim, evidence: Evidence, machine: dict[int, CpuSet]) -> _Sets | str:
    held = promised(ClaimSet(claims=()), claim, view.changes_of(claim.name, evidence.transitions))
    sets = sets_in_force(Stand(claim=claim, held=held), evidence)
    if isinstance(sets, str):
        return sets
    return tuple((f"CPUs {cpus} ({name})", groups.nodes_of(cpus, machine)) for name, cpus in sets)


def _assigned(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Verdict:
    """Judge the devices that a kubelet gave: those that a policy aligns; where the others sit is measured."""
    machine, places, devices = groups.nodes(evidence), _places(evidence), claim.assigned_devices
    measures: dict[str, Measure] = {"devices_count": len(devices), "far_devices_count": 0}
    verdict = Judgement(ID, claim.name, measures)
    if machine is None:
        return verdict(Outcome.UNDECIDED, "the machine's NUMA nodes are not known")
    wide = any(device.aligned is DeviceScope.POD for device in devices)
    sets = _own_sets(claim, claims if wide else None, evidence, machine)
    if isinstance(sets, str):
        return verdict(Outcome.UNDECIDED, sets)
    measures["nodes"] = str(CpuSet.union(own for _, own in sets))
    wrong: list[str] = []
    apart: list[str] = []
    for device in devices:
        nodes, said = _nodes(device, places)
        measures[f"device_{device.id}_node"] = str(nodes)
        near = [(name, own) for name, own in sets if nodes and not nodes & own]
        if near:
            measures["far_devices_count"] = len(wrong) + len(apart) + 1
            text = f"device {_named(device)} sits on node {nodes}{said}, its {near[0][0]} on {near[0][1]}"
            (wrong if device.aligned else apart).append(text)
    if wrong:
        return verdict(Outcome.FAILED, "; ".join(wrong[:3]))
    if not sets:
        return verdict(Outcome.SKIPPED, "neither CPUs nor memory nodes are its own, to which a device could be near")
    if not any(device.aligned for device in devices):
        return verdict(Outcome.SKIPPED, f"measured, not promised: {'; '.join(apart[:3]) or 'no device is seen far'}")
    unlike = f"; measured, not promised: {'; '.join(apart[:3])}" if apart else ""
    count = sum(device.aligned is not None for device in devices)
    return verdict(Outcome.PASSED, f"{count} aligned devices on the nodes of its {sets[0][0]}{unlike}")


def _own_sets(claim: Claim, pod: ClaimSet | None, evidence: Evidence, machine: dict[int, CpuSet]) -> _Sets | str:
    """Return the nodes of the CPUs and of the memory that a kubelet gave a container, or its whole pod, for itself.

    :param pod: ``None``: only its own.
    """
    found: list[tuple[str, CpuSet]] = []
    for one in [claim] if pod is None else _of_pod(claim, pod):
        other = "" if one.name == claim.name else f" of {one.name}"
        if one.cpus and one.isolation is not Isolation.HOST and not one.pinned_by:
            sets = _of_cpus(one, evidence, machine)
            if isinstance(sets, str):
                return sets
            found += [(f"{name}{other}", own) for name, own in sets]
        if one.mems:
            found.append((f"memory{other}", one.mems))
    return tuple(found)


def _of_pod(claim: Claim, claims: ClaimSet) -> Iterator[Claim]:
    yield claim
    yield from (one for one in claims.claims if one.name != claim.name and view.same_pod(one, claim))


def _nodes(device: AssignedDevice, places: Mapping[str, DevicePlace]) -> tuple[CpuSet, str]:
    """Return where a device sits, by the kernel where that knows it, else by its plugin; and what of that differs."""
    stated, place = CpuSet.of(device.numa_nodes), places.get(device.id)
    if place is None or place.numa_node is None or place.numa_node < 0:
        return stated, ""
    differs = stated and place.numa_node not in stated
    return CpuSet.of((place.numa_node,)), f" (by its plugin on {stated})" if differs else ""


def _named(device: AssignedDevice) -> str:
    return f"{device.resource} {device.id}" if device.resource else f"{device.id} of claim {device.claim}"


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="The devices given to a container sit on the NUMA nodes of its CPUs.",
        how=prose("""
            numa_node of each PCI device, as udev and sysfs report it, must be among the nodes of the claim's CPUs: of
            the promised set, and of what the kernel granted when the window opened and closed. A device that the kernel
            does not have is undecided; so is a device without a node in the firmware (-1) on a machine with several
            nodes.

            Of a kubelet's node the devices are those of pod-resources. One whose plugin states its NUMA node must share
            a node with the CPUs and with the memory that were given to its container, under scope pod to its pod, where
            the Topology Manager's policy is single-numa-node. Under other policies, without a stated node, and of
            claims of DRA, nothing is promised: where they sit is measured. The kernel's word, where it has one, comes
            before the plugin's.
        """),
        tolerance="None.",
        source=prose("""
            Kubernetes documentation, Topology Manager, Device Plugins (Monitoring device plugin resources);
            Documentation/ABI/testing/sysfs-bus-pci (numa_node); docs/failures.md F30, F37
        """),
        negative_control="Give the container CPUs of the other node: `echo 8-9 > cpuset.cpus`.",
        witnesses=(Witness.FILES,),
        measures=(
            *levels("devices_count", "far_devices_count"),
            *words("nodes", "device_*_node"),
        ),
    ),
    check,
)
