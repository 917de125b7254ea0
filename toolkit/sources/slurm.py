"""Claims of Slurm's jobs on this node: CPUs and memory from ``scontrol show job -d``, places from the cgroup tree.

``CPU_IDs`` are Slurm's own numbers, which :mod:`toolkit.sources.slurm_cpus` makes the kernel's. They are a promise only
where Slurm confines jobs to them: with ``ConstrainCores=yes``, by task/cgroup (:mod:`toolkit.sources.slurm_config`).
Source: scontrol(1) ("show job", ``--details``); cgroup.conf(5); slurm.conf(5), ``OverSubscribe``; Slurm 22.05
src/plugins/cgroup/v2/cgroup_v2.c (``NODE_slurmstepd.scope/job_N``), src/api/job_info.c, and of 23.02 and 24.05.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import InputError
from toolkit.host.topology import read_topology
from toolkit.model.claims import Claim, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.topology import Topology
from toolkit.regular_file import bytes_of
from toolkit.sources.gathered import Gathering, amount, hierarchy_of
from toolkit.sources.hostlist import names_host
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places
from toolkit.sources.programs import output_of
from toolkit.sources.slurm_config import (
    MIB,
    SLURM_CONF,
    SlurmConfig,
    UnknownLimitError,
    memory_limit,
    read_config,
)
from toolkit.sources.slurm_cpus import L3, NUMA, PACKAGE, Counted, count, performance_cores
from toolkit.text.names import from_text

COMMAND = ("scontrol", "show", "job", "--details")
EXPECTED = "what `scontrol show job -d` prints"
USUAL = "/system.slice/{node}_slurmstepd.scope/job_{job}"
"""Where Slurm 22.05.8 puts a job on cgroup v2."""
NAME = "slurm"
_HEAD = re.compile(r"JobId=(\d{1,10})(?: |$)", re.ASCII)
_NODES = re.compile(r"^\s+Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d{0,15})\b", re.MULTILINE | re.ASCII)
_STATE = re.compile(r"^\s+JobState=([A-Z_]+)", re.MULTILINE | re.ASCII)
_SHARED = re.compile(r"^\s+OverSubscribe=([A-Z:0-9]+) ", re.MULTILINE | re.ASCII)
_JOB = re.compile(r"job_(\d{1,10})", re.ASCII)
_RUNNING = frozenset(("RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING"))
_MAX_DEPTH = 8
_OLD, _MIDDLE, _NEW = "22.05", "23.02", "24.05"
"""Releases since which ``CPU_IDs`` or a job's memory mean something else."""
_TASK_CGROUP = "task/cgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """What is known of the node that jobs run on.

    :param confines: whether jobs are confined to their CPUs. :param limits: to their memory.
    :param counted: the machine as Slurm counts it, with all cores and (a hybrid one) with performance cores alone.
    """

    name: str
    config: SlurmConfig
    topology: Topology
    confines: bool = False
    limits: bool = False
    counted: dict[bool, Counted | None]


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
    here = _node(name, places, gathering)
    found = tuple(cgroups(places))
    listed = jobs(data, "scontrol show job" if where is None else str(where))
    for block in listed:
        _add(block, here, found, gathering)
    _elsewhere(listed, name, gathering, hint=f" (--{NAME} NODE@ names this node)" if where is None else "")
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
    """Return the kernel's CPUs in the order in which Slurm counts them where nothing is set."""
    counted = count(topology)
    return () if counted is None else counted.block_map


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


def _node(name: str, places: Places, gathering: Gathering) -> _Node:
    """Read what jobs are confined to, and say what they are not."""
    config = read_config(places, name)
    confines, ram, swap = map(config.yes, ("ConstrainCores", "ConstrainRAMSpace", "ConstrainSwapSpace"))
    plugins = config.task_plugins
    masks = "; task/affinity binds tasks by their masks alone, which they may change" if config.binds_by_mask else ""
    without = plugins is not None and _TASK_CGROUP not in plugins
    if without:
        what = f"TaskPlugin={','.join(plugins or ())} in {config.found[SLURM_CONF]}, without {_TASK_CGROUP}"
        gathering.missing("CPU_IDs", f"{what}: jobs are confined to no CPUs{masks}: where they run is not judged")
        gathering.missing("memory", f"{what}: memory of jobs is not judged")
        return _Node(name=name, config=config, topology=read_topology(places.root), counted={})
    if not confines:
        why = config.why_not("ConstrainCores")
        gathering.missing("CPU_IDs", f"{why}: jobs are confined to no CPUs{masks}: where they run is not judged")
    if not ram and not swap:
        gathering.missing("memory", f"{config.why_not('ConstrainRAMSpace')}: memory of jobs is not judged")
    if (confines or ram or swap) and SLURM_CONF in config.problems:
        gathering.missing(SLURM_CONF, f"{config.problems[SLURM_CONF]}: its settings may change what jobs are promised")
    elif (confines or ram or swap) and SLURM_CONF in config.found and plugins is None:
        where = config.found[SLURM_CONF]
        why = (
            f"TaskPlugin is not set in {where}: if it is set nowhere, Slurm confines no job, whatever cgroup.conf says"
        )
        gathering.missing("TaskPlugin", why)
    topology = read_topology(places.root)
    return _Node(
        name=name,
        config=config,
        topology=topology,
        confines=confines,
        limits=ram or swap,
        counted=_counted(topology, config) if confines else {},
    )


def _counted(topology: Topology, config: SlurmConfig) -> dict[bool, Counted | None]:
    socket = L3 if config.parameter("l3cache_as_socket") else PACKAGE
    if socket == PACKAGE and config.parameter("numa_node_as_socket"):
        socket = NUMA
    whole = count(topology, socket)
    alike = performance_cores(topology) == topology.online or config.parameter("allow_ecores")
    return {True: whole, False: whole if alike else count(topology, socket, all_cores=False)}


def _add(block: str, here: _Node, found: tuple[tuple[int, str], ...], gathering: Gathering) -> None:
    head, state = _HEAD.match(block), _STATE.search(block)
    if head is None or state is None or state[1] not in _RUNNING:
        return
    name = f"job-{head[1]}"
    rows = [row for row in _NODES.findall(block) if names_host(row[0], here.name)]
    if len(rows) != 1:
        if rows:
            gathering.missing(name, f"node {here.name} is listed {len(rows)} times: left out")
        return
    _, ids, mebibytes = rows[0]
    wanted = gathering.cpus(ids, name, "CPU_IDs") if here.confines else None
    cpus = None if wanted is None else _of_kernel(wanted, block, here, name, gathering)
    memory = _memory(int(mebibytes or 0), block, here, name, gathering) if here.limits else None
    paths = [path for number, path in found if number == int(head[1])]
    if not paths:
        paths = [from_text(USUAL.format(node=here.name, job=head[1]))]
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
        memory_bytes=amount(memory),
        contended=False,
    )
    gathering.add(claim, name)


def _releases(block: str) -> tuple[str, ...]:
    """Return which releases print a job so: ``TRES=`` became two lines in 23.02, ``Power=`` went in 24.05."""
    if " ReqTRES=" in block or "\n   ReqTRES=" in block:
        return (_MIDDLE,) if "Power=" in block else (_NEW,)
    return (_OLD,) if " TRES=" in block else (_OLD, _MIDDLE, _NEW)


def _of_kernel(ids: CpuSet, block: str, here: _Node, name: str, gathering: Gathering) -> CpuSet | None:
    """Return the kernel's numbers, if they follow from what is known."""
    answers = {
        counted.cpus(ids, threads, stride) if counted is not None else None
        for release in _releases(block)
        for counted, threads, stride in _countings(here, release)
    }
    if len(answers) == 1:
        (cpus,) = answers
        if cpus is not None:
            return cpus
        why = f"this machine has {len(here.topology.online)} CPUs online"
    else:
        sets = " or ".join(sorted(str(cpus) if cpus is not None else "none" for cpus in answers))
        why = f"CPUs {sets}, by Slurm's release and the node's definition"
    gathering.missing(name, f"CPU_IDs {ids}: {why}: they are not judged")
    return None


def _countings(here: _Node, release: str) -> Iterator[tuple[Counted | None, int, int]]:
    """Yield how the node may be counted: the machine, threads per core by definition, numbers from core to core."""
    node = here.config.node
    counted = here.counted[release == _OLD]
    actual = 1 if counted is None else counted.threads
    threads = node.threads or (1 if node.cpus else actual)
    if node.cpus is not None and counted is not None and node.cpus == len(counted.block_map):
        actual = 1  # Only CPUs are defined: each counts as a core.
    if release != _NEW:
        yield counted, threads, threads
    if release != _OLD:
        yield counted, threads, actual


def _memory(mebibytes: int, block: str, here: _Node, name: str, gathering: Gathering) -> int | None:
    """Return the limit in bytes; before 23.02 its bounds are parts of the machine's memory, then of ``RealMemory``."""
    machine = here.topology.mem_total_bytes
    totals = {
        (None if machine is None else machine // MIB) if release == _OLD else here.config.node.memory_mib
        for release in _releases(block)
    }
    try:
        limits = {memory_limit(here.config, mebibytes, total) for total in totals}
    except UnknownLimitError as error:
        gathering.missing(name, f"{error}: its memory is not judged")
        return None
    if len(limits) == 1:
        return limits.pop()
    gathering.missing(name, f"a limit of {' or '.join(map(str, sorted(filter(None, limits))))} bytes: not judged")
    return None
