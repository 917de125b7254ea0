"""Rule ``device-numa``: the devices given to a container sit on the NUMA nodes of its CPUs."""

from __future__ import annotations

from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import Evidence
from toolkit.model.measures import levels, words
from toolkit.model.verdict import Measure, Outcome, Verdict
from validators.placement import groups
from validators.placement.alignment import sets_in_force
from validators.placement.promised import Stand
from validators.rule import Judgement, Rule, RuleDoc, prose
from validators.witness import Witness

ID = "device-numa"


def check(claims: ClaimSet, evidence: Evidence) -> tuple[Verdict, ...]:
    """Judge every claim that was promised devices."""
    asked = [claim for claim in claims.claims if claim.devices]
    if not asked:
        reason = "no claim names a device"
        return (Verdict(rule=ID, subject="node", outcome=Outcome.SKIPPED, reason=reason, measures={}),)
    return tuple(_judge(claim, evidence) for claim in asked)


def _judge(claim: Claim, evidence: Evidence) -> Verdict:
    machine = groups.nodes(evidence)
    places = {place.bdf: place for place in evidence.devices or ()}
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


def _node_sets(claim: Claim, evidence: Evidence, machine: dict[int, CpuSet]) -> tuple[tuple[str, CpuSet], ...] | str:
    """Return the nodes of each CPU set that held, or of its memory where it has no CPUs of its own."""
    if claim.cpus is None and claim.mems is not None:
        return (("memory", claim.mems),)
    sets = sets_in_force(Stand(claim=claim), evidence)
    if isinstance(sets, str):
        return sets
    return tuple((f"CPUs {cpus} ({name})", groups.nodes_of(cpus, machine)) for name, cpus in sets)


RULE = Rule(
    RuleDoc(
        id=ID,
        claim="The devices given to a container sit on the NUMA nodes of its CPUs.",
        how=prose("""
            numa_node of each PCI device, as udev and sysfs report it, must be among the nodes of the claim's CPUs: of
            the promised set, and of what the kernel granted when the window opened and closed. A device that the kernel
            does not have is undecided; so is a device without a node in the firmware (-1) on a machine with several
            nodes.
        """),
        tolerance="None.",
        source=prose("""
            Kubernetes documentation, Topology Manager; Documentation/ABI/testing/sysfs-bus-pci (numa_node);
            docs/failures.md F30, F37
        """),
        negative_control="Give the container CPUs of the other node: `echo 8-9 > cpuset.cpus`.",
        witnesses=(Witness.FILES,),
        measures=(
            *levels("devices_count"),
            *words("nodes", "device_*_node"),
        ),
    ),
    check,
)
