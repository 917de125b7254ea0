"""Claims of Slurm's jobs on this node: CPUs and memory from ``scontrol show job -d``, places from the cgroup tree.

``CPU_IDs`` are Slurm's own numbers: it counts sockets, their cores, their threads; the kernel numbers otherwise on most
machines with hyper-threads. They become the kernel's by the topology.
Source: scontrol(1) ("show job", ``--details``); cgroup.conf(5); slurm.conf(5), ``OverSubscribe``; Slurm 22.05
src/slurmd/common/xcpuinfo.c (``xcpuinfo_abs_to_mac``),
src/plugins/cgroup/v2/cgroup_v2.c (``NODE_slurmstepd.scope/job_N``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.topology import read_topology
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.names import from_text
from toolkit.model.topology import Topology
from toolkit.sources.gathered import Gathering, amount, hierarchy_of
from toolkit.sources.hostlist import names_host
from toolkit.sources.kubelet.live_files import bytes_of, read_bytes
from toolkit.sources.kubelet.places import Places
from toolkit.sources.live_source import SourceReading
from toolkit.sources.programs import output_of

COMMAND = ("scontrol", "show", "job", "--details")
EXPECTED = "what `scontrol show job -d` prints"
CONFIGURATION = "/etc/slurm/cgroup.conf"
USUAL = "/system.slice/{node}_slurmstepd.scope/job_{job}"
"""Where Slurm 22.05.8 puts a job on cgroup v2."""
MIB = 1 << 20
NAME = "slurm"
NODE_OPTION = f"--{NAME}-node"
_HEAD = re.compile(r"JobId=(\d{1,10})(?: |$)", re.ASCII)
_NODES = re.compile(r"^\s+Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d{0,15})\b", re.MULTILINE | re.ASCII)
_STATE = re.compile(r"^\s+JobState=([A-Z_]+)", re.MULTILINE | re.ASCII)
_SHARED = re.compile(r"^\s+OverSubscribe=([A-Z:0-9]+) ", re.MULTILINE | re.ASCII)
_JOB = re.compile(r"job_(\d{1,10})", re.ASCII)
_RUNNING = frozenset(("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING"))
_MAX_DEPTH = 8


def read(where: Path | None, places: Places, node: str | None = None) -> SourceReading:
    """Return the claims of the jobs that run on this node.

    :param where: a file with what :data:`COMMAND` printed; ``None``: Slurm is asked.
    :param node: the node's name in Slurm; ``None``: this machine's, without its domain.
    :raises InputError: it cannot be read, or shows no jobs.
    """
    name = node or os.uname().nodename.partition(".")[0]
    before = None if where is not None else set(cgroups(places))
    data = output_of(COMMAND) if where is None else bytes_of(where, f"a file with {EXPECTED}")
    if where is not None and not data.strip():
        raise InputError(str(where), "nothing", EXPECTED)
    gathering = Gathering()
    configuration, _ = read_bytes(places.target(places.below(CONFIGURATION)))
    limits = _constrains(configuration, "constrainramspace")
    if not limits:
        why = "is not set" if configuration is not None else f"is not known ({CONFIGURATION} was not read)"
        gathering.missing("memory", f"ConstrainRAMSpace {why}: memory of jobs is not judged")
    topology = read_topology(places.root)
    found = tuple(cgroups(places))
    listed = jobs(data, "scontrol show job" if where is None else str(where))
    for block in listed:
        _add(block, name, slurm_order(topology), found, gathering, limits=limits)
    _elsewhere(listed, name, gathering, hint=f" ({NODE_OPTION} names this node)" if where is None else "")
    # A job that began while Slurm was asked is none of its answer.
    _unclaimed(found if before is None else before.intersection(found), name, gathering)
    return gathering.reading()


def jobs(data: bytes, where: str) -> tuple[str, ...]:
    """Cut the output into jobs.

    :raises InputError: a block that is no job, or one that is cut off.
    """
    text = data.decode("utf-8", "surrogateescape").strip()
    if text in ("", "No jobs in the system"):
        return ()
    blocks = [block for block in text.split("\n\n") if block.strip()]
    for block in blocks:
        if _HEAD.match(block) is None:
            raise InputError(where, f"'{from_text(block.strip()[:60])}'", EXPECTED)
        if len(_STATE.findall(block)) != 1:
            raise InputError(where, f"job {_HEAD.match(block)[1]} without one JobState", EXPECTED)  # type: ignore[index]
    return tuple(blocks)


def _elsewhere(listed: Sequence[str], node: str, gathering: Gathering, hint: str) -> None:
    """Jobs run, and none of them here: the node may be called otherwise in Slurm, a file may be of another machine."""
    running = [block for block in listed if (state := _STATE.search(block)) and state[1] in _RUNNING]
    nodes = sorted({row[0] for block in running for row in _NODES.findall(block)})
    if nodes and not any(names_host(text, node) for text in nodes):
        where = from_text(", ".join(nodes)[:80])
        gathering.missing("jobs", f"none that runs is on node {node}: they are on {where}{hint}")


def _unclaimed(found: Iterable[tuple[int, str]], node: str, gathering: Gathering) -> None:
    """Name the jobs that have a cgroup here and are promised nothing, whatever the reason."""
    for number, path in sorted(found):
        if not gathering.has(path):
            why = f"{path} exists, but no job {number} of node {node} is claimed: it is not judged"
            gathering.missing(f"job-{number}", why)


def slurm_order(topology: Topology) -> tuple[int, ...]:
    """Return the kernel's CPUs in the order in which Slurm counts them: by socket, core and thread."""
    cpus = [cpu for cpu in topology.cpus if cpu.online]
    return tuple(cpu.cpu for cpu in sorted(cpus, key=lambda cpu: (cpu.socket_key, cpu.core_key, cpu.cpu)))


def cgroups(places: Places) -> Iterator[tuple[int, str]]:
    """Yield job numbers with their cgroups."""
    hierarchy = hierarchy_of(places.root)
    mount = None
    if hierarchy is not None:
        mount = hierarchy.find_controller("cpuset") or hierarchy.unified
    for folder, names, _ in os.walk(mount) if mount is not None else ():
        path = Path(folder).relative_to(mount or "/")
        match = _JOB.fullmatch(path.name)
        if match is not None and "slurm" in str(path):
            names.clear()
            yield int(match[1]), f"/{from_text(str(path))}"
        elif len(path.parts) >= _MAX_DEPTH:
            names.clear()


def _constrains(configuration: bytes | None, key: str) -> bool:
    lines = (configuration or b"").decode("utf-8", "replace").lower().splitlines()
    return any("".join(line.split("#")[0].split()) == f"{key}=yes" for line in lines)


def _add(
    block: str,
    node: str,
    order: Sequence[int],
    found: tuple[tuple[int, str], ...],
    gathering: Gathering,
    *,
    limits: bool,
) -> None:
    head, state = _HEAD.match(block), _STATE.search(block)
    if head is None or state is None or state[1] not in _RUNNING:
        return
    name = f"job-{head[1]}"
    rows = [row for row in _NODES.findall(block) if names_host(row[0], node)]
    if len(rows) != 1:
        if rows:
            gathering.missing(name, f"node {node} is listed {len(rows)} times: left out")
        return
    _, ids, mebibytes = rows[0]
    cpus = _of_kernel(gathering.cpus(ids, name, "CPU_IDs"), order, name, gathering)
    paths = [path for number, path in found if number == int(head[1])]
    if not paths:
        paths = [from_text(USUAL.format(node=node, job=head[1]))]
        gathering.missing(name, f"no cgroup of it was found: {paths[0]} is where Slurm puts it")
    shared = _SHARED.search(block)
    alone = bool(cpus) and shared is not None and shared[1] == "NO"
    claim = Claim(
        name=name,
        cgroup=paths[0],
        pod=name,
        container=name,
        cpus=cpus,
        isolation=Isolation.CONTAINER if alone else Isolation.HOST,
        memory_bytes=amount(int(mebibytes or 0) * MIB) if limits else None,
        contended=False,
    )
    gathering.add(claim, name)


def _of_kernel(ids: CpuSet | None, order: Sequence[int], name: str, gathering: Gathering) -> CpuSet | None:
    if ids is None:
        return None
    if max(ids) >= len(order):
        gathering.missing(name, f"CPU_IDs {ids}: this machine has {len(order)} CPUs online: they are not judged")
        return None
    return CpuSet.of(order[number] for number in ids)
