"""Refuse to load a node that is at work: a kubelet, pods, batch jobs, pinned workloads. Reads; changes nothing.

``run``, ``conformance`` and ``inject`` start loads on every CPU that they may use. A lab machine is for that; a node
with other work is not, unless its owner insists (``--on-live-node``), and then only the CPUs that nothing owns are.
What runs several things looks again before each: in the minutes that they take something may come. What a host lacks
is asked before (``preflight.require_run``): that is the same tomorrow.

Source: docs/facts.md "Normal on a healthy node"; slurmd's cgroup plugins (``job_<id>``); systemd.resource-control(5),
``AllowedCPUs=``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit import presence
from toolkit.allocation.checkpoint.state_files import cpu_state_file
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.host import cgroupfs
from toolkit.host.cgroup_use import CgroupUse, read_cgroup_use
from toolkit.host.procfs import comm
from toolkit.host.topology import read_topology
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.topology import Topology
from toolkit.regular_file import read_bytes
from toolkit.session.planning.pinned_work import pinned_work
from toolkit.sources.kubelet.configuration import DEFAULT_ROOT, read_flags
from toolkit.sources.kubelet.files.process import embedding, kubelet_arguments
from toolkit.sources.kubelet.pod_paths import place_of
from toolkit.sources.places import Places
from toolkit.text.names import printable
from toolkit.text.wording import first_of

OPTION = "--on-live-node"
OURS = "pinproof-"
"""How every cgroup that pinproof makes begins: other runs of it are no reason to refuse."""
HOUSEKEEPING = ("system.slice", "user.slice", "init.scope")
"""Where a tuned node keeps its own services off the workload's CPUs: that they are narrowed is no workload."""
MAX_NAMED = 3
_JOB = re.compile(r"job_(\d{1,12})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """Other work. :param what: for people. :param cpus: those that are its own."""

    what: str
    cpus: CpuSet = EMPTY


def free_machine(*, insisted: bool, root: Path = Path("/")) -> Topology:
    """Return the machine that may be loaded: all of it, or what nothing owns where something insists.

    :raises HostUnsupportedError: the node is at work and nothing insists, or every CPU has an owner.
    """
    found = occupants(root)
    if not found:
        return read_topology(root)
    named = _named(found)
    if not insisted:
        raise HostUnsupportedError(
            f"this node is at work: {named}; nothing was started ({OPTION} insists, on CPUs without owner)"
        )
    owned = CpuSet.union(one.cpus for one in found)
    if read_topology(root).online <= owned:
        raise HostUnsupportedError(f"every CPU of this node has an owner: {named}")
    return read_topology(root, but_not=owned)


def still_free(loaded: CpuSet | None = None, root: Path = Path("/")) -> None:
    """Look again before more is started on a machine that was free.

    :param loaded: the CPUs that nothing owned when something insisted; ``None``: nothing did.
    :raises HostUnsupportedError: the node is at work by now, or these CPUs have an owner.
    """
    found = occupants(root)
    if loaded is None and found:
        raise HostUnsupportedError(f"this node is at work by now: {_named(found)}; nothing more was started")
    came = [one for one in found if loaded is not None and loaded & one.cpus]
    if came:
        taken = CpuSet.union(one.cpus for one in came) & (loaded or EMPTY)
        raise HostUnsupportedError(f"CPUs {taken} have an owner by now: {_named(came)}; nothing more was started")


def _named(found: Sequence[Occupant]) -> str:
    return first_of([printable(one.what) for one in found], MAX_NAMED, "; ")


def occupants(root: Path = Path("/")) -> tuple[Occupant, ...]:
    """Return the others' work on this machine but pinproof's own."""
    proc = root / "proc"
    found = []
    arguments = kubelet_arguments(proc)
    owned: CpuSet | None = None
    if arguments is not None or presence.is_dir(root / DEFAULT_ROOT.lstrip("/")):
        owned = _promised(root, arguments)
    if arguments is not None:
        found.append(Occupant(what="a kubelet runs", cpus=owned or EMPTY))
    elif name := embedding(proc):
        found.append(Occupant(what=f"a kubelet runs ({name})", cpus=owned or EMPTY))
    uses = read_cgroup_use(cgroupfs.detect(root))
    family = own_family() if str(root) == "/" else frozenset[int]()
    found += occupied(uses, family, pods_own=owned)
    if str(root) == "/":
        topology = read_topology(root)
        isolated = _isolated(topology)
        ours = {pid for use in uses if OURS in use.path for pid in use.pids}
        pinned = pinned_work(topology.online, uses, family | ours | isolated.keys())
        found += isolated.values()
        found += (
            Occupant(what=f"{comm(pid)} ({pid}) is at work, pinned to CPUs {cpus}", cpus=cpus)
            for pid, cpus in pinned.items()
        )
    return tuple(found)


def _promised(root: Path, arguments: tuple[str, ...] | None) -> CpuSet | None:
    """Return the CPUs that the kubelet's state file gives to containers; ``None``: it says nothing that can be trusted.

    Of another policy than ``static`` it has no entries, whatever else may have given CPUs to pods (NRI, DRA).
    """
    try:
        folder = read_flags(arguments or ()).root_directory
    except InputError:
        folder = DEFAULT_ROOT
    places = Places(root=root)
    data, _ = read_bytes(places.target(places.below(f"{folder}/cpu_manager_state")))
    if data is None:
        return None
    state = cpu_state_file(data.decode("utf-8", "replace"))
    if state.problem or not state.checksum_ok or state.policy != "static":
        return None
    try:
        return CpuSet.union(CpuSet.parse(entry.cpus) for entry in (*state.entries, *state.pods))
    except InputError:
        return None


def occupied(uses: Iterable[CgroupUse], own: Collection[int], pods_own: CpuSet | None = None) -> list[Occupant]:
    """Return the work that cgroups show: pods, jobs, and others with a set of CPUs of their own. Pure.

    :param uses: every cgroup, parents first. :param own: processes that do not count: pinproof's own.
    :param pods_own: what pods own by the kubelet's state file; ``None``: what their cgroups are narrowed to.
    """
    known = {use.path: use for use in uses if not use.path.strip("/").startswith(OURS)}
    busy = {path for path, use in known.items() if any(pid not in own for pid in use.pids)}
    every = next((use.cpus for use in known.values() if use.path == "/"), None)
    pods: dict[str, CpuSet] = {}
    others: dict[str, Occupant] = {}
    for path, use in known.items():
        if not any(inside == path or inside.startswith(path.rstrip("/") + "/") for inside in busy) or path == "/":
            continue
        place = place_of(path)
        narrowed = _narrowed(use, known, every)
        if place is not None:
            pods[place.pod_uid] = pods.get(place.pod_uid, EMPTY) | narrowed
            continue
        job = next((match for part in path.split("/") if (match := _JOB.fullmatch(part))), None)
        if job is not None and "slurm" in path:
            name = f"job {job[1]}"
            before = others[name].cpus if name in others else EMPTY
            others[name] = Occupant(what=f"Slurm {name} runs", cpus=before | narrowed)
        elif narrowed and not any(path.startswith(name + "/") for name in others):
            others[path] = Occupant(what=f"processes in {path} are pinned to CPUs {narrowed}", cpus=narrowed)
    found = []
    if pods:
        count = f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"
        runs = "runs" if len(pods) == 1 else "run"
        own_cpus = CpuSet.union(pods.values()) if pods_own is None else pods_own
        found.append(Occupant(what=f"{count} {runs}", cpus=own_cpus))
    return [*found, *others.values()]


def _narrowed(use: CgroupUse, known: dict[str, CgroupUse], every: CpuSet | None) -> CpuSet:
    """Return the cgroup's CPUs if they are fewer than those that it would have without a wish of its own."""
    top = "/" + use.path.strip("/").partition("/")[0]
    usual = every
    if top.strip("/") in HOUSEKEEPING and top in known:
        usual = known[top].cpus
    return use.cpus if use.cpus and usual is not None and use.cpus < usual else EMPTY


def own_family() -> frozenset[int]:
    """Return this process, those that led to it and those that it started: where we were put is no other work."""
    import psutil  # most verbs refuse nothing and need no list of processes

    me = psutil.Process()
    family = [me, *me.parents(), *me.children(recursive=True)]
    return frozenset(one.pid for one in family)


def _isolated(topology: Topology) -> dict[int, Occupant]:
    """Return processes that run on isolated CPUs, where the kernel puts only tasks that ask for them."""
    apart = topology.isolated | topology.nohz_full
    if not apart:
        return {}
    import psutil

    own = own_family()
    found = {}
    for process in psutil.process_iter(["name"]):
        try:
            if process.pid in own or not process.cmdline() or OURS in " ".join(_cgroups(process.pid)):
                continue  # kernel threads have no command line
            cpus = CpuSet.of(process.cpu_affinity())
        except (psutil.Error, OSError):
            continue
        if cpus and cpus <= apart:
            name = printable(str(process.info["name"]))
            found[process.pid] = Occupant(what=f"{name} ({process.pid}) runs on isolated CPUs {cpus}", cpus=cpus)
    return found


def _cgroups(pid: int) -> list[str]:
    data, _ = read_bytes(Path("/proc") / str(pid) / "cgroup")
    return [os.fsdecode(line).rpartition(":")[2] for line in (data or b"").splitlines()]
