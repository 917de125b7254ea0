"""Whose a result is: which node, in which session and job, on which hardware and software. Facts, no judgement.

Two results are of one node where ``machine`` is the same, and of one *hardware class* where the structure of their
machines is: sockets, NUMA nodes, level 3 groups, cores and threads, whatever numbers the kernel gave them, with the
processor's model and the distances between the nodes. Memory sizes are no part of it: they differ by some megabytes
from boot to boot.
Source: machine-id(5), which asks for the id to be hashed before it leaves the machine; random(4) (``boot_id``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field

from toolkit.model.cpuset import CpuSet
from toolkit.model.serde import stage_value
from toolkit.model.topology import Topology

HASH_DIGITS = 16
"""Of a SHA-256 in hexadecimal: two of a million machines share 64 bits once in 37 million fleets."""
_NOISE = re.compile(
    r"\((?:r|tm)\)|\bcpu\b|@.*$|\b\d+-core\b|\bprocessor\b|\b(?:intel|amd|xeon|genuine)\b", re.IGNORECASE
)
_NOT_SLUG = re.compile(r"[^a-z0-9]+")
MODEL_CHARACTERS = 32


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareClass:
    """Machines that are built alike. :param name: for people, such as ``epyc-9454-2s-96c-smt-nps4``."""

    name: str
    hash: str


@stage_value
@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Of the machine that a result was made on, and of what ran there. Empty: not known, or there is none.

    :param node: the host's name, or what ``PINPROOF_NODE`` calls it.
    :param machine: hash of the machine's id, with the fleet's salt (``PINPROOF_FLEET_SALT``).
    :param session: the run, or the conformance run, that it belongs to.
    :param job: what asked for it (``PINPROOF_JOB``), such as a pipeline's number.
    :param kernel_build: the kernel's build beside its release: number, flavour, date.
    :param kubelet: its version. :param runtime, oci_runtime: with their names: ``containerd 2.4.0``, ``runc 1.3.2``.
    :param feature_gates: those that the running kubelet's configuration sets.
    :param sysctls: those that decide what runs where and when, by name.
    :param programs: hash of the sources of the BPF programs.
    """

    node: str = ""
    machine: str = ""
    boot_id: str = ""
    session: str = ""
    job: str = ""
    kernel_build: str = ""
    microcode: str = ""
    kubelet: str = ""
    runtime: str = ""
    oci_runtime: str = ""
    feature_gates: dict[str, bool] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    programs: str = ""
    hardware: HardwareClass | None = None


def digest(*parts: object) -> str:
    """Return a short hash of values that JSON can hold."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:HASH_DIGITS]


def software_class(kernel: str, identity: Identity | None) -> str:
    """Return the software that results are compared within: kernel, kubelet, and the gates that are set."""
    if identity is None:
        return kernel
    parts = [kernel]
    if identity.kubelet:
        parts.append(f"kubelet {identity.kubelet}")
    if identity.feature_gates:
        gates = sorted(identity.feature_gates.items())
        parts.append("gates " + ",".join(f"{name}={str(on).lower()}" for name, on in gates))
    return ", ".join(parts)


def hardware_class(topology: Topology) -> HardwareClass:
    """Return the class of a machine, by its online CPUs."""
    sockets = list(topology.sockets.values()) or [topology.online]
    structure = sorted(_socket(topology, cpus) for cpus in sockets)
    distances = topology.distances
    near = [] if distances is None else sorted(sorted(row) for row in distances.matrix)
    model = topology.cpu_model or topology.arch or "unknown"
    return HardwareClass(name=_name(topology, sockets, model), hash=digest(topology.arch, model, structure, near))


def _socket(topology: Topology, socket: CpuSet) -> list[list[list[int]]]:
    """Return a package's NUMA nodes, each as its level 3 groups, each as the threads of its cores, largest first."""
    nodes = [cpus & socket for cpus in topology.numa_cpus.values() if cpus & socket] or [socket]
    return sorted((_node(topology, cpus) for cpus in nodes), reverse=True)


def _node(topology: Topology, node: CpuSet) -> list[list[int]]:
    groups = [cpus & node for cpus in topology.l3_groups.values() if cpus & node] or [node]
    cores = list(topology.cores.values())
    return sorted(
        (sorted((len(core & group) for core in cores if core & group), reverse=True) for group in groups), reverse=True
    )


def _name(topology: Topology, sockets: list[CpuSet], model: str) -> str:
    slug = _NOT_SLUG.sub("-", _NOISE.sub(" ", model).lower()).strip("-")[:MODEL_CHARACTERS].strip("-") or "unknown"
    threads = {len(core) for core in topology.cores.values()}
    smt = "smt" if threads and max(threads) > 1 else "nosmt"
    per_socket = Counter(sum(1 for node in topology.numa_cpus.values() if node & socket) for socket in sockets)
    nodes = max(per_socket, default=1) or 1
    uneven = "-uneven" if len(threads) > 1 else ""
    return f"{slug}-{len(sockets)}s-{len(topology.cores)}c-{smt}{uneven}-nps{nodes}"
