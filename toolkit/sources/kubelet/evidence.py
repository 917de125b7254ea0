"""A reading of a node as evidence for the rules: a still picture, and the claims as they stand in it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

from toolkit.errors import InputError
from toolkit.host import side_files
from toolkit.host.environment import summary
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet, Isolation
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Coverage, Environment, Evidence, HotplugEvent, ThreadMask
from toolkit.model.layers import Layer, LayerView
from toolkit.model.memory_units import NO_LIMIT, limit_in_force
from toolkit.model.node_reading import MEMORY_WRITTEN, STATE_WRITTEN, UNIFIED, NodeReading, RuntimeContainer
from toolkit.model.runtimes import INIT_NAMES
from toolkit.model.state_files import KnownContainer, StateReading
from toolkit.sources.kubelet.bundle_machine import device_places
from toolkit.sources.kubelet.claims import NodeClaims, Promise
from toolkit.sources.kubelet.json_parts import items, mapping, number, parsed, text
from toolkit.sources.kubelet.memory_nodes import nodes_above
from toolkit.sources.kubelet.modelled import captured_topology
from toolkit.sources.kubelet.pod_paths import expand
from toolkit.sources.kubelet.pod_rows import Rows, row_of, rows_of
from toolkit.sources.kubelet.still import asked_of, behind, in_the_making, may_begin, picture_of
from toolkit.sources.kubelet.subjects import Subject, is_over, merged_tree, pod_documents
from toolkit.text.names import from_text, printable

RULES = (
    *("checkpoint", "applied", "layers-agree", "affinity-mask", "mems-containment"),
    *("smt-alignment", "numa-alignment", "device-numa"),
)
"""The rules that a still picture can answer."""
LAST_S = 253402300799.0
"""9999-12-31: no time of a file lies after it."""
_NODE = re.compile(r"^/sys/devices/system/node/node(\d{1,4})/cpulist: ?(.*)$", re.MULTILINE)


def evidence_of(reading: NodeReading, node: NodeClaims) -> tuple[ClaimSet, Evidence]:
    """Return the claims in force and the evidence. The promise in force is what the kubelet asked for last."""
    # By the names that claims give to cgroups.
    tree = {from_text(path): files for path, files in merged_tree(reading).items()}
    online = _online(reading, tree)
    memory_read = any("memory.max" in files or "memory.limit_in_bytes" in files for files in tree.values())
    asked = {p.claim.name: asked_of(p) for p in node.promises if p.claim is not None}
    asked |= {p.claim.name: p.pinned.cpus for p in node.promises if p.claim is not None and p.pinned and p.pinned.cpus}
    making = in_the_making(reading, node)
    late = behind(reading, node)
    claims = tuple(
        Claim(
            name=claim.name,
            cgroup=claim.cgroup,
            pod=claim.pod,
            pod_uid=claim.pod_uid,
            container=claim.container,
            kind=claim.kind,
        )
        if claim.name in making.made
        else replace(
            _in_force(claim, None if claim.name in late else asked.get(claim.name)),
            memory_bytes=claim.memory_bytes if memory_read else None,
        )
        for claim in node.claims.claims
    )
    # What is read of one that may be in the making says nothing for a promise and nothing against it.
    read = [claim.cgroup for claim in claims if claim.cgroup in tree and claim.name not in making.perhaps]
    files = tuple(_files(cgroup, tree[cgroup]) for cgroup in read)
    names = {p.claim.name: p for p in node.promises if p.claim is not None}
    rows = rows_of(reading)
    evidence = Evidence(
        started_at="",
        start_monotonic_ns=0,
        duration_ns=0,
        environment=Environment(
            kernel="", cgroup=_mode(reading), cmdline="", cpus_online=online, topology=_topology(reading)
        ),
        coverage=Coverage(proc_scans=int(reading.threads is not None), cpus_online=online),
        thread_masks=tuple(
            mask for name, p in names.items() if name not in making.perhaps for mask in _masks(p, reading)
        ),
        files_before=files,
        files_after=files,
        layers=tuple(
            view for p in names.values() for view in layers_of(p, reading, rows, nodes_above(p.subject, tree))
        ),
        state_files=state_readings(reading, node, online),
        hotplug=_offline(reading, node.claims, online),
        picture=picture_of(reading, node, making, late),
        devices=device_places(reading.sysfs or "", claims),
    )
    return replace(node.claims, claims=claims), evidence


def _in_force(claim: Claim, asked: CpuSet | None) -> Claim:
    """A container that waits for its reconcile holds what was asked for last; unknown: only layers-agree speaks."""
    if claim.cpus is None or claim.isolation is not Isolation.HOST or asked == claim.cpus:
        return claim
    return replace(claim, cpus=asked)


def layers_of(
    promise: Promise, reading: NodeReading, rows: Rows | None = None, above: CpuSet | None = None
) -> list[LayerView]:
    """Return what state file, runtime and pod-resources say of a subject that has a claim.

    :param rows: those of the reading; what asks for many subjects has them at hand.
    :param above: the memory nodes of the cgroup above, where they are known: one for which none were asked has these.
    """
    assert promise.claim is not None
    name, subject = promise.claim.name, promise.subject
    found = []
    if promise.state is not None or promise.state_mems is not None:
        found.append(
            LayerView(claim=name, layer=Layer.CHECKPOINT, at_ns=0, cpus=promise.state, mems=promise.state_mems)
        )
    pinned = promise.pinned
    if pinned is not None:
        found.append(LayerView(claim=name, layer=Layer.PLUGIN, at_ns=0, cpus=pinned.cpus, mems=pinned.mems))
    asked = asked_of(promise)
    # What the kubelet asked for goes through the program, which puts its own in its place.
    if asked is not None and (pinned is None or pinned.cpus in (None, asked)):
        mems = parsed(subject.runtime.asked.mems or "") if subject.runtime and subject.runtime.asked else None
        found.append(LayerView(claim=name, layer=Layer.RUNTIME, at_ns=0, cpus=asked, mems=mems or above))
    cpus = _from_pod_resources(subject, rows_of(reading) if rows is None else rows)
    if cpus is not None:
        found.append(LayerView(claim=name, layer=Layer.POD_RESOURCES, at_ns=0, cpus=cpus, api_cpus=promise.api_cpus))
    return found


def _from_pod_resources(subject: Subject, said: Rows) -> CpuSet | None:
    """Return the subject's own CPUs there."""
    row = row_of(subject, said)
    if row is None or not row.cpus:
        return None
    try:
        return CpuSet.of(row.cpus)
    except (InputError, ValueError):
        return None


def _masks(promise: Promise, reading: NodeReading) -> list[ThreadMask]:
    """Return the masks of a subject's threads, without those of a runtime that may still be at work there."""
    assert promise.claim is not None
    found = []
    passed_over = INIT_NAMES if may_begin(promise.subject, reading) else frozenset[str]()
    for thread in promise.subject.threads:
        cpus, mems = parsed(thread.cpus_allowed or ""), parsed(thread.mems_allowed or "")
        if cpus and thread.comm not in passed_over:
            found.append(
                ThreadMask(
                    claim=promise.claim.name,
                    pid=thread.pid,
                    tid=thread.tid,
                    comm=printable(thread.comm),
                    cpus_allowed=cpus,
                    mems_allowed=mems or CpuSet(),
                    times_seen=1,
                    first_at_ns=0,
                    last_at_ns=0,
                )
            )
    return found


def _files(cgroup: str, files: dict[str, str]) -> CgroupFiles:
    def cpus(*names: str) -> CpuSet | None:
        return next((parsed(files[name]) for name in names if name in files), None)

    def whole(*names: str) -> int | None:
        return next((number(files[name].strip()) for name in names if name in files), None)

    quota, period = whole("cpu.cfs_quota_us"), whole("cpu.cfs_period_us")
    words = files.get("cpu.max", "").split()
    if len(words) == 2:
        quota, period = NO_QUOTA if words[0] == "max" else number(words[0]), number(words[1])
    limit = NO_LIMIT if files.get("memory.max") == "max" else whole("memory.max", "memory.limit_in_bytes")
    return CgroupFiles(
        cgroup=cgroup,
        at_ns=0,
        cpus=cpus("cpuset.cpus"),
        cpus_effective=cpus("cpuset.cpus.effective", "cpuset.effective_cpus"),
        mems=cpus("cpuset.mems"),
        mems_effective=cpus("cpuset.mems.effective", "cpuset.effective_mems"),
        quota_us=NO_QUOTA if quota is not None and quota < 0 else quota,
        period_us=period,
        burst_us=whole("cpu.max.burst", "cpu.cfs_burst_us"),
        weight=whole("cpu.weight"),
        shares=whole("cpu.shares"),
        memory_max_bytes=NO_LIMIT
        if files.get("memory.max") == "max"
        else None
        if limit is None
        else limit_in_force(limit),
        **side_files.of_all(files.get),  # type: ignore[arg-type]
    )


def state_readings(reading: NodeReading, node: NodeClaims, online: CpuSet) -> tuple[StateReading, ...]:
    """Return the state files, or that there are none, with what is known to own what they assign."""
    known = None if node.settings.problem else node.settings.config
    return (
        StateReading(
            at_ns=0,
            cpus_online=online,
            cpu=node.cpu,
            memory=node.memory,
            cpu_policy=known.cpu_manager_policy if known else None,
            memory_policy=known.memory_manager_policy if known else None,
            containers=_containers(reading),
            node_bytes=reading.node_bytes,
            union_known=node.settings.union_known,
            reserved_cpus=None if node.settings.problem else node.claims.reserved_cpus,
            strict_reservation=node.claims.strict_reservation,
            cpu_written_at=moment_of(reading.read_at_s.get(STATE_WRITTEN)),
            memory_written_at=moment_of(reading.read_at_s.get(MEMORY_WRITTEN)),
        ),
    )


def moment_of(epoch_s: float | None) -> str:
    """Write a file's time; a capture is another's: what is no time is none."""
    if epoch_s is None or not 0 < epoch_s < LAST_S:
        return ""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")


def _containers(reading: NodeReading) -> tuple[KnownContainer, ...] | None:
    """Return the containers of active pods; without a list of pods those of the runtime.

    One that ended in a pod whose sandbox has ended is of no active pod: a reconcile takes its CPUs.
    """
    if reading.pods is None:
        if reading.containers is None:
            return None
        over = {one.pod_uid for one in reading.containers if one.sandbox and not one.ready}
        over -= {one.pod_uid for one in reading.containers if one.sandbox and one.ready}
        return tuple(
            KnownContainer(pod_uid=entry.pod_uid, container=entry.name, running=_runs(entry, reading))
            for entry in reading.containers
            if not (entry.sandbox or (entry.state == "exited" and entry.pod_uid in over))
        )
    found = []
    for uid, document in pod_documents(reading).items():
        if is_over(document):
            continue
        status = mapping(document.get("status"))
        running = {
            text(mapping(entry).get("name"))
            for name in ("initContainerStatuses", "containerStatuses")
            for entry in items(status.get(name))
            if "running" in mapping(mapping(entry).get("state"))
        }
        spec = mapping(document.get("spec"))
        for name in ("initContainers", "containers"):
            for entry in map(mapping, items(spec.get(name))):
                own = text(entry.get("name"))
                found.append(KnownContainer(pod_uid=uid, container=own, running=own in running))
    return tuple(found)


def _runs(entry: RuntimeContainer, reading: NodeReading) -> bool:
    """A finished init container stays listed: where no state is given, its cgroup or its threads say whether it runs.

    Where neither was read it is not known, and nothing is said against it.
    """
    if entry.state:
        return entry.state == "running"
    path = expand(entry.cgroups_path)
    if reading.cgroups is not None:
        return any(path in groups for groups in reading.cgroups.values())
    return any(path in thread.cgroups.values() for thread in reading.threads or ())


def _online(reading: NodeReading, tree: dict[str, dict[str, str]]) -> CpuSet:
    """Return the CPUs that are online; where sysfs was not read, those that any cgroup was granted."""
    if reading.online is not None:
        return parsed(reading.online) or CpuSet()
    return CpuSet.union(
        parsed(files.get(name, "")) or CpuSet()
        for files in tree.values()
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus")
    )


def _offline(reading: NodeReading, claims: ClaimSet, online: CpuSet) -> tuple[HotplugEvent, ...]:
    """Return the CPUs that are promised and went offline, which the kernel takes out of cpusets: nothing wrote there.

    Only by the machine's own word: where it was not read, what no cgroup has may be what something took away.
    """
    if reading.online is None or not online:
        return ()
    promised = CpuSet.union(claim.cpus for claim in claims.claims if claim.cpus)
    return tuple(HotplugEvent(cpu=cpu, online=False, at_ns=0) for cpu in promised - online)


def _topology(reading: NodeReading) -> dict[str, object]:
    topology = captured_topology(reading.sysfs)
    if not isinstance(topology, str):
        return summary(topology)
    nodes = {node: cpus.strip() for node, cpus in _NODE.findall(reading.sysfs or "")}
    return {"numa_nodes": nodes} if nodes else {}


def _mode(reading: NodeReading) -> str:
    names = set(reading.cgroups or {})
    if names <= {UNIFIED}:
        return "v2"
    return "hybrid" if UNIFIED in names else "v1"
