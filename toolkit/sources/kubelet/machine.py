"""The machine of a node, from the lines of its ``sysfs.txt``, and its kubelet, started in the model on that machine.

The lines are put back as files of a tree that is nowhere on a disk, and read by the one reader of such files. The model
says which CPUs a kubelet reserves where its configuration gives an amount, and what its options promise: from
configuration and machine, never from its answers.

Source: docs/capture-bundle.md; docs/facts.md K-kubelet-4; Kubernetes documentation "Reserve Compute Resources for
System Daemons".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from toolkit.allocation.admission import StartupError
from toolkit.allocation.cpu.manager import StaticPolicy
from toolkit.allocation.machine import Machine
from toolkit.allocation.node import Node
from toolkit.errors import InputError
from toolkit.host.pci_devices import full_address
from toolkit.host.text_tree import TextTree
from toolkit.host.topology import read_topology
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import CPU
from toolkit.model.claims import Claim
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NodeReading
from toolkit.model.placement import DevicePlace
from toolkit.model.topology import Topology
from toolkit.sources.json_parts import parsed
from toolkit.sources.kubelet.configuration import Settings

_LINE = re.compile(r"(/sys/devices/system/(?:cpu|node)(?:/[A-Za-z0-9_-]{1,64}){1,8}): ?(.*)", re.ASCII)
_MEMBERS = re.compile(r"/sys/devices/system/node/node\d{1,4}/cpulist", re.ASCII)
_CPUS = "/sys/devices/system/cpu"
_CPU_FOLDER = re.compile(r"/sys/devices/system/cpu/cpu\d{1,5}(?=/)", re.ASCII)
_CPU = re.compile(r"/sys/devices/system/cpu/cpu(\d{1,5})/topology/core_id", re.ASCII)
_PCI = re.compile(r"^/sys/bus/pci/devices/([0-9a-f:.]{7,18})/numa_node: ?(-?\d{1,6})$", re.ASCII | re.MULTILINE)
_LINE_END = " | "
"""Between the lines of a file of several."""
MAX_LINES = 2_000_000
MAX_FILES = 500_000
"""The kernel's most CPUs with some fifty files each."""
EXPECTED = "a capture with sysfs.txt (docs/capture-bundle.md)"


def capture_topology(reading: NodeReading, where: str) -> Topology:
    """Return the machine that the capture describes.

    :param where: the capture, for messages.
    :raises InputError: it describes none: no ``sysfs.txt``, or one without the CPUs' topology.
    """
    lines = (reading.sysfs or "").split("\n", MAX_LINES)[:MAX_LINES]
    files = {match[1]: match[2] for line in lines if (match := _LINE.fullmatch(line.rstrip("\r")))}
    if not any(_CPU.fullmatch(path) for path in files):
        raise InputError(where, "no topology of its CPUs in it", f"{EXPECTED}, or --topology DIR")
    if len(files) > MAX_FILES:
        raise InputError(where, f"sysfs.txt: {len(files)} files", f"at most {MAX_FILES}")
    return read_topology(_tree(files, where))


def device_places(sysfs: str, claims: Iterable[Claim]) -> tuple[DevicePlace, ...]:
    """Return where the kernel has the PCI devices of claims, as far as the capture says.

    :param sysfs: lines of ``sysfs.txt``.
    """
    known = {address: int(node) for address, node in _PCI.findall(sysfs)}
    wanted = {one.id: full_address(one.id) for claim in claims for one in claim.assigned_devices}
    return tuple(
        DevicePlace(bdf=name, present=True, numa_node=known[address])
        for name, address in sorted(wanted.items())
        if address in known
    )


def _bare(files: Mapping[str, str]) -> set[str]:
    """Return the folders of CPUs that are there and offline: a kernel keeps the folder, without a topology in it, and a
    capture of ``topology`` and lists alone has no line of it.
    """
    present, online = (parsed(files.get(f"{_CPUS}/{name}", "").strip()) for name in ("present", "online"))
    return {f"{_CPUS}/cpu{cpu}" for cpu in present - online} if present and online else set()


def _tree(files: Mapping[str, str], where: str) -> TextTree:
    """Put the lines back as files, with the links between a node and its CPUs, which no line holds."""
    texts = {path.lstrip("/"): text.replace(_LINE_END, "\n") + "\n" for path, text in files.items()}
    folders = {match[0] for path in files if (match := _CPU_FOLDER.match(path))}
    texts |= {f"{folder}/online".lstrip("/"): "0\n" for folder in _bare(files) - folders}
    links = {}
    for path, text in files.items():
        node = path.removesuffix("/cpulist")
        for cpu in CpuSet.parse(text.strip(), path) if _MEMBERS.fullmatch(path) else ():
            own = f"/sys/devices/system/cpu/cpu{cpu}"
            if own in folders:
                links[f"{node}/cpu{cpu}".lstrip("/")] = own.lstrip("/")
                links[f"{own}/{node.rpartition('/')[2]}".lstrip("/")] = node.lstrip("/")
    return TextTree(where or "sysfs.txt", texts, links)


STATIC = "static"


@lru_cache(maxsize=4)
def captured_topology(sysfs: str | None) -> Topology | str:
    """Return the machine that lines of sysfs describe, or why they do not."""
    try:
        return capture_topology(NodeReading(sysfs=sysfs), "sysfs.txt")
    except InputError:
        return "the topology of its CPUs was not captured"


@lru_cache(maxsize=4)
def _machine(sysfs: str | None) -> Machine | str:
    topology = captured_topology(sysfs)
    if isinstance(topology, str):
        return topology
    if topology.kubelet.error is not None:
        return f"the kubelet's discovery fails on this topology: {topology.kubelet.error}"
    try:
        return Machine.from_topology(topology.kubelet)
    except InputError as error:
        return str(error)


def modelled_node(reading: NodeReading, config: NodeConfig) -> Node | str:
    """Start the node's kubelet, or say why that cannot be.

    Memory is not managed: what is asked here is about CPUs, and the node's totals may be unknown.
    """
    machine = _machine(reading.sysfs)
    if isinstance(machine, str):
        return machine
    gates = config.feature_gates.without(config.feature_gates.refused)
    plain = replace(
        config,
        memory_manager_policy="None",
        reserved_memory=(),
        eviction_hard={},
        kube_reserved=_cpus(config.kube_reserved),
        system_reserved=_cpus(config.system_reserved),
        feature_gates=gates,
    )
    try:
        return Node(plain, machine)
    except (StartupError, InputError) as error:
        return str(error)


def _cpus(amounts: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if name == CPU}


def reserves_an_amount(known: Settings) -> bool:
    """Whether the configuration leaves it to the kubelet which CPUs it reserves."""
    config = known.config
    return not (known.problem or config.reserved_system_cpus) and config.cpu_manager_policy == STATIC


def with_reserved(known: Settings, reading: NodeReading) -> Settings:
    """Add which CPUs are reserved where only their number is configured: the kubelet takes them as for a container."""
    if not reserves_an_amount(known):
        return known
    node = modelled_node(reading, known.config)
    if isinstance(node, str):
        return replace(known, reserved_problem=node)
    assert isinstance(node.cpu_policy, StaticPolicy)
    return replace(known, reserved=node.cpu_policy.reserved)
