"""A reading of a node as evidence for the rules: a still picture, and the claims as they stand in it.

What one reading says beside the layers is a :class:`~toolkit.model.picture.Picture`: what a reconcile may still change,
what the runtime is making, what it does not list, what a state file that was changed by hand answers.

Source: docs/facts.md K-kubelet-1, K-kubelet-2, K-kubelet-4, K-kubelet-12, K-shares; kubernetes
``cpumanager/cpu_manager.go`` (``reconcileState``); Kubernetes documentation "Static policy" (as many CPUs as the
container's integer limit); KEP-5526.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from toolkit.allocation.cgroup_values import milli_to_shares
from toolkit.allocation.checkpoint.devices import device_state_file
from toolkit.allocation.cpu.requests import exclusive_cpus
from toolkit.errors import InputError
from toolkit.host import side_files
from toolkit.host.cpu_settings import settings_of
from toolkit.host.environment import summary
from toolkit.kubernetes.feature_gates import IN_PLACE_RESIZE_EXCLUSIVE_CPUS, POD_LEVEL_RESOURCES
from toolkit.model.claims import NO_QUOTA, Claim, ClaimSet, Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence import CgroupFiles, Coverage, Environment, Evidence, HotplugEvent, ThreadMask
from toolkit.model.layers import ApiCpus, Layer, LayerView
from toolkit.model.memory_units import NO_LIMIT, limit_in_force
from toolkit.model.node_reading import (
    KUBELET_STARTED,
    MEMORY_WRITTEN,
    STATE_REWRITTEN,
    STATE_WRITTEN,
    UNIFIED,
    NodeReading,
    RuntimeContainer,
)
from toolkit.model.picture import Picture, RejectedPod, Unlisted
from toolkit.model.runtimes import INIT_NAMES, PINNED_NS
from toolkit.model.state_files import KnownContainer, StateReading
from toolkit.sources.json_parts import items, mapping, number, parsed, text
from toolkit.sources.kubelet.gauges import manager_gauges
from toolkit.sources.kubelet.machine import STATIC, captured_topology, device_places
from toolkit.sources.kubelet.pod_paths import CONMON, class_above, expand
from toolkit.sources.kubelet.pods import is_over, pod_documents, requested
from toolkit.sources.kubelet.promises.node import NodeClaims
from toolkit.sources.kubelet.promises.pod import Promise, asked_of
from toolkit.sources.kubelet.subjects import (
    PAUSE,
    Rows,
    Subject,
    lasting,
    lost,
    merged_tree,
    nodes_above,
    row_of,
    rows_of,
    shown_pod,
)
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
    asked = {p.claim.name: asked_cpus(p) for p in node.promises if p.claim is not None}
    asked |= {p.claim.name: p.pinned.cpus for p in node.promises if p.claim is not None and p.pinned and p.pinned.cpus}
    making = in_the_making(reading, node)
    late = behind(reading, node)
    claims = tuple(
        Claim(
            name=claim.name,
            cgroup=claim.cgroup,
            pod=claim.pod,
            namespace=claim.namespace,
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
        cpu_settings=None if reading.cpu_settings is None else settings_of(reading.cpu_settings),
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
    asked = asked_cpus(promise)
    # What the kubelet asked for goes through the program, which puts its own in its place.
    if asked is not None and (pinned is None or pinned.cpus in (None, asked)):
        mems = parsed(subject.runtime.asked.mems or "") if subject.runtime and subject.runtime.asked else None
        found.append(LayerView(claim=name, layer=Layer.RUNTIME, at_ns=0, cpus=asked, mems=mems or above))
    cpus = _from_pod_resources(promise.claim, subject, rows_of(reading) if rows is None else rows)
    if cpus is not None:
        found.append(LayerView(claim=name, layer=Layer.POD_RESOURCES, at_ns=0, cpus=cpus, api_cpus=promise.api_cpus))
    return found


def _from_pod_resources(claim: Claim, subject: Subject, said: Rows) -> CpuSet | None:
    """Return the subject's own CPUs there, or those that it shares with its pod alone."""
    row = row_of(subject, said)
    stated = () if row is None else row.cpus or (row.shared if claim.isolation is Isolation.POD else ())
    if not stated:
        return None
    try:
        return CpuSet.of(stated)
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


_devices_of = lru_cache(maxsize=1)(device_state_file)
"""A file says the same at most readings."""


def state_readings(reading: NodeReading, node: NodeClaims, online: CpuSet) -> tuple[StateReading, ...]:
    """Return the state files, or that there are none, with what is known to own what they assign."""
    known = None if node.settings.problem else node.settings.config
    return (
        StateReading(
            at_ns=0,
            cpus_online=online,
            cpu=node.cpu,
            memory=node.memory,
            devices=None if reading.device_state is None else _devices_of(reading.device_state),
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


AT_ONCE_S = 1.0
"""Readings that are nearer to each other than a tenth of the usual reconcile period are of one moment."""
_GRANTED = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
WORKLOADS = (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL)
_SANDBOX_NAMES = INIT_NAMES | {PAUSE}
MAX_WORDS = 400
"""Of a status's texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Claims of containers that the runtime is making, and that it may be making: nothing says."""

    made: frozenset[str]
    perhaps: frozenset[str]


def picture_of(reading: NodeReading, node: NodeClaims, making: Making, late: Iterable[str]) -> Picture:
    """Return the picture. :param making: see :func:`in_the_making`. :param late: see :func:`behind`."""
    known, later_s = node.settings, _later_s(reading)
    names = {p.claim.name: p for p in node.promises if p.claim is not None}
    return Picture(
        ended=tuple(name for name, p in names.items() if _has_ended(p, node)),
        being_made=tuple(sorted(making.made)),
        perhaps_made=tuple(sorted(making.perhaps)),
        behind=tuple(sorted(late)),
        overdue_s={name: lag_s for name, p in names.items() if (lag_s := overdue_s(p.subject, reading, node))},
        runtime_read=any(entry.asked for entry in reading.containers or ()),
        pods_read=reading.pods is not None,
        lost=lasting(reading, [p.subject for p in node.promises]),
        unlisted=_unlisted(reading, node),
        at_once=later_s is not None and later_s <= AT_ONCE_S,
        metrics=manager_gauges(reading.metrics),
        api_cpus=_api_cpus(reading, node),
        miscounted=miscounted(reading, node),
        reserved=known.reserved if known.reserved_known else None,
        rejected=_rejected(reading),
        pinners_unread=node.pinners_unread,
        topology_policy=None if known.problem else known.config.topology_manager_policy,
    )


def _has_ended(promise: Promise, node: NodeClaims) -> bool:
    """Whether a subject's pod is none for the kubelet: by its list, or it has given up what was the container's own."""
    active = promise.subject.active
    return bool(had_own(promise, node)) if active is None else not active


def asked_cpus(promise: Promise) -> CpuSet | None:
    """Return the CPUs that the kubelet asked the runtime for last; ``None``: not known, or none were."""
    runtime = promise.subject.runtime
    if runtime is None or runtime.asked is None or not runtime.asked.cpus:
        return None
    return parsed(runtime.asked.cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What is said of a container of the shared pool: by the state file, the runtime, its cgroup and its threads."""

    name: str
    state: CpuSet | None
    asked: CpuSet
    found: CpuSet | None
    threads: CpuSet
    overdue: bool
    """A reconcile must have come before its cgroup was read."""

    @property
    def differs(self) -> bool:
        """Whether it was asked for what the state file says and does not have it."""
        return bool(self.found) and self.state == self.asked != self.found

    @property
    def moved(self) -> bool:
        """Whether its threads, read after its cgroup, have what was asked for, and could not have got it there."""
        stuck = self.found is not None and self.threads <= self.found <= self.asked
        return self.differs and bool(self.threads) and self.threads <= self.asked and not stuck


def behind(reading: NodeReading, node: NodeClaims) -> frozenset[str]:
    """Return the claims of shared containers whose cgroups may be of before a reconcile that the runtime's list, read
    later, is of after: nothing is promised about their CPUs.

    Their threads, read in between, may say so. A cgroup that is as the state file says is none that another program
    wrote. With a list that is as the state file says, nothing has got yet what some were asked for, or not all have,
    where the state had just changed: another program's write hits one. No such reconcile was left to come where one had
    been due. A CPU that went offline is missing in the cgroups above, too.
    """
    shared = [
        _Shared(
            name=p.claim.name,
            state=p.state,
            asked=asked,
            found=_granted(p.subject),
            threads=CpuSet.union(parsed(thread.cpus_allowed or "") or CpuSet() for thread in p.subject.threads),
            overdue=overdue_s(p.subject, reading, node) is not None,
        )
        for p in node.promises
        if p.claim is not None
        and p.claim.isolation is Isolation.HOST
        and not p.claim.pinned_by
        and (asked := asked_cpus(p)) is not None
        # No reconcile comes for a pod that has ended: it keeps what it had.
        and p.subject.active is not False
    ]
    sure = frozenset(one.name for one in shared if one.moved) | _as_stated(node)
    later_s = _later_s(reading)
    if later_s is not None and later_s <= AT_ONCE_S:
        return sure
    # In the middle of a reconcile some have the old set, and some the new one already.
    old = [one for one in shared if one.differs or not _under_way(reading, node)]
    alike = len(shared) > 1 and len({one.found for one in old}) == 1
    if not alike or not all(one.differs or one.asked == one.found for one in shared):
        return sure
    return sure | {one.name for one in shared if one.differs and not one.overdue and _reconciled(node, one)}


def _as_stated(node: NodeClaims) -> frozenset[str]:
    """Return the claims whose cgroup is as the state file says and not as the runtime's list does: the two are right.

    A kubelet that takes a pod out of its state has written that and all cgroups within milliseconds.
    """
    return frozenset(
        p.claim.name
        for p in node.promises
        if p.claim is not None and p.state and p.state == _granted(p.subject) != (asked_cpus(p) or p.state)
    )


def _under_way(reading: NodeReading, node: NodeClaims) -> bool:
    """Whether a reconcile may have been under way when the cgroups were read: the state file had just been written."""
    begun, written = reading.read_at_s.get("cgroup_read"), reading.read_at_s.get(STATE_WRITTEN)
    return begun is not None and written is not None and 0 <= begun - written <= node.settings.reconcile_s + SLACK_S


def _reconciled(node: NodeClaims, one: _Shared) -> bool:
    """Whether a reconcile may have changed what was found to what was asked for."""
    found = one.found or CpuSet()
    sandboxes = [_granted(p.subject) for p in node.promises if p.subject.kind is SubjectKind.SANDBOX]
    grown = found <= one.asked and all(above is None or one.asked <= above for above in sandboxes)
    return grown or (one.asked <= found and found - one.asked <= _assigned(node))


def _assigned(node: NodeClaims) -> CpuSet:
    """Return the CPUs that the state file assigns: their owners may not have been made yet."""
    entries = (*node.cpu.entries, *node.cpu.pods) if node.cpu is not None else ()
    return CpuSet.union(parsed(entry.cpus) or CpuSet() for entry in entries)


def _granted(subject: Subject) -> CpuSet | None:
    return next((parsed(subject.files[name]) for name in _GRANTED if name in subject.files), None)


def in_the_making(reading: NodeReading, node: NodeClaims) -> Making:
    """Return the claims in whose cgroup only the runtime's own process is: it writes the files while it is there. Or no
    process any more, and nothing was written: what was started ended at once.
    """
    tree = {from_text(path): files for path, files in merged_tree(reading).items()}
    alone = {
        p.claim.name: may_begin(p.subject, reading)
        for p in node.promises
        if p.claim is not None
        and all(one.comm in INIT_NAMES for one in p.subject.threads)
        and (p.subject.threads or (reading.threads is not None and _unwritten(p, reading, tree)))
    }
    # A container is listed before its runtime enters its cgroup; a pod sandbox was promised nothing.
    strangers = {one.claim for one in _unlisted(reading, node)}
    strangers |= {p.claim.name for p in node.promises if p.claim and p.claim.kind not in WORKLOADS}
    return Making(
        made=frozenset(name for name, begins in alone.items() if begins),
        perhaps=frozenset(name for name, begins in alone.items() if begins is None) - strangers,
    )


def _unwritten(promise: Promise, reading: NodeReading, tree: dict[str, dict[str, str]]) -> bool:
    """Whether a container's cgroup has not got the CPUs that were asked for, but those of the cgroup above, as one has
    that was just made. On v1 a runtime copies these; one without any lost them (a CPU that went offline).
    """
    subject = promise.subject
    own = parsed(subject.files.get("cpuset.cpus", ""))
    given = bool(own) if "cpuset" in (reading.cgroups or {}) else own is not None
    return given and not _pinned(subject, own, tree) and _granted(subject) != asked_cpus(promise)


def _pinned(subject: Subject, own: CpuSet | None, tree: dict[str, dict[str, str]]) -> bool:
    """Whether a cgroup has a set of its own. :param own: what was written to it. :param tree: by claims' names."""
    above = tree.get(subject.cgroup.rpartition("/")[0], {})
    return bool(own) and own not in (parsed(above[name]) for name in _GRANTED if name in above)


def may_begin(subject: Subject, reading: NodeReading) -> bool | None:
    """Whether the runtime may have been at work in a container when its threads were read; ``None``: nothing says.

    By the runtime's word: any task can call itself as a runtime's do.
    """
    runtime, at_s = subject.runtime, reading.read_at_s.get("threads_read")
    if runtime is not None and not runtime.runs:
        return True
    began_ns = (runtime.started_at_ns or runtime.created_at_ns) if runtime is not None else None
    return None if at_s is None or not began_ns else at_s * 1e9 - began_ns <= PINNED_NS


def _unlisted(reading: NodeReading, node: NodeClaims) -> tuple[Unlisted, ...]:
    """Return the cgroups that a runtime must list; its sandbox (unpinned, ``pause``) it lists only when it is ready.

    A monitor (``conmon``) is never listed, and has no CPUs of its own. A container that the runtime lists, and that is
    not where it should be, may be in such a cgroup.
    """
    if reading.containers is None:
        return ()
    tree, found = {from_text(path): files for path, files in merged_tree(reading).items()}, []
    told = {from_text(expand(entry.cgroups_path)) for entry in reading.containers}
    losers = {one.pod_uid for one in lost(reading, [p.subject for p in node.promises])}
    for promise in node.promises:
        subject, claim = promise.subject, promise.claim
        runs = bool(subject.threads or subject.files.get("cgroup.procs", "").strip())
        listed = subject.runtime is not None or subject.cgroup in told
        if listed or claim is None or not runs or subject.id.startswith(CONMON):
            continue
        pinned = _pinned(subject, parsed(subject.files.get("cpuset.cpus", "")), tree)
        if not pinned and all(one.comm in _SANDBOX_NAMES for one in subject.threads):
            continue
        doubt = "" if pinned else "it has the CPUs of the cgroup above, as a pod sandbox has"
        if subject.pod_uid in losers:
            doubt = "a container of its pod was not found, and may be there"
        found.append(Unlisted(claim=claim.name, doubt=doubt))
    return tuple(found)


def _rejected(reading: NodeReading) -> tuple[RejectedPod, ...]:
    """Return the pods that the kubelet refused: their status has a reason, and no container was ever made."""
    found = []
    for document in reading.pods or ():
        status, metadata = mapping(document.get("status")), mapping(document.get("metadata"))
        if status.get("phase") == "Failed" and text(status.get("reason")):
            said = (metadata.get("name"), status.get("reason"), status.get("message"))
            name, reason, message = (printable(text(value))[:MAX_WORDS] for value in said)
            pod = shown_pod(text(metadata.get("namespace")), name)
            found.append(RejectedPod(pod=pod, reason=reason, message=message))
    return tuple(found)


def _api_cpus(reading: NodeReading, node: NodeClaims) -> CpuSet | None:
    """Return the exclusive CPUs of all containers by the pod-resources API; ``None``: it was not read, or may give the
    shared pool to those that own none.
    """
    if reading.pod_resources is None or any(p.api_cpus is not ApiCpus.OWN for p in node.promises):
        return None
    try:
        return CpuSet.union(CpuSet.of((*row.cpus, *row.shared)) for row in reading.pod_resources)
    except (InputError, ValueError):
        return None


def _later_s(reading: NodeReading) -> float | None:
    """Return how long after the cgroups the runtime's lists were complete, where the capture says when. A clock that
    went back meanwhile, and lists that were read first, say nothing of it.
    """
    begun, end = reading.read_at_s.get("cgroup_read"), reading.read_at_s.get("end")
    listed = reading.read_at_s.get("sockets_read", begun)
    if begun is None or end is None or listed is None or not begun <= listed <= end:
        return None
    return end - begun


def miscounted(reading: NodeReading, node: NodeClaims) -> dict[str, int]:
    """Return the claims of owners whose entry in the state file has another number of CPUs than they ask for, with the
    number that they ask for, as far as the kubelet's list of pods says it.

    What was promised is what a container asks for; a state file that was changed by hand answers otherwise.

    A pod whose resize is under way may have the one number or the other; with a gate resizes are taken, and the CPU
    manager keeps what it has.
    """
    gates = node.settings.config.feature_gates
    if node.settings.problem or gates[IN_PLACE_RESIZE_EXCLUSIVE_CPUS]:
        return {}
    listed, asked_for = pod_documents(reading), requested(reading, budgets=gates[POD_LEVEL_RESOURCES])
    found = {}
    for promise in node.promises:
        uid, claim = promise.subject.pod_uid, promise.claim
        pod = asked_for.pods.get(uid) if uid in listed and uid not in asked_for.in_force else None
        container = pod.container(promise.subject.container) if pod is not None else None
        if pod is None or container is None or claim is None or not promise.state or not promise.in_state:
            continue
        count = exclusive_cpus(pod, container, pod_level_managers=gates.pod_level_managers)
        if claim.isolation is Isolation.CONTAINER and count and count != len(promise.state):
            found[claim.name] = count
    return found


def had_own(promise: Promise, found: NodeClaims) -> CpuSet:
    """Return the CPUs that a container was given as its own, and that are no longer; empty: none, as far as is known.

    In a Guaranteed pod, with the shares of as many whole CPUs as it was given, and no CPU of the pool among these: what
    shares the pool has its CPUs, or those of the pool that was.
    """
    asked, subject = asked_of(promise.subject), promise.subject
    static = not found.settings.problem and found.settings.config.cpu_manager_policy == STATIC
    if promise.in_state or promise.state is None or subject.kind is not SubjectKind.CONTAINER or not static:
        return CpuSet()
    cpus = parsed(asked.cpus or "") or CpuSet()
    guaranteed = not class_above(subject.cgroup)
    whole = asked.shares == milli_to_shares(1000 * len(cpus)) and not cpus & promise.state
    return cpus if guaranteed and whole else CpuSet()


SLACK_S = 5.0
"""Beyond the reconcile period: a reconcile goes through all containers, 5 ms each, and we read once in a while."""


def overdue_s(subject: Subject, reading: NodeReading, node: NodeClaims) -> float | None:
    """Return for how long a reconcile had been possible when the cgroups were read, if that is longer than one takes.

    A reconcile compares the state with the kubelet's own memory, a period after the last one at the latest. It comes
    for containers that run, of pods that are active, never for ephemeral ones, and not while no kubelet runs. All
    seconds are of the node's clock, as it dates files.

    ``None``: it is not, or nothing says. The state file is read first and the runtime's list last: where the file was
    written again in between, the list may be of the new one.
    """
    times, runtime = reading.read_at_s, subject.runtime
    written_s, read_s = times.get(STATE_WRITTEN), times.get("cgroup_read")
    if written_s is None or read_s is None or STATE_REWRITTEN in times or node.settings.problem:
        return None
    if subject.kind is not SubjectKind.CONTAINER or subject.active is False:
        return None
    if reading.pods is None and KUBELET_STARTED not in times:  # One that has just started lists none.
        return None
    if runtime is not None and not runtime.runs:
        return None
    began_ns = (runtime.started_at_ns or runtime.created_at_ns or 0) if runtime is not None else 0
    lasted_s = read_s - max(written_s, times.get(KUBELET_STARTED, written_s), began_ns / 1e9)
    return lasted_s if lasted_s > node.settings.reconcile_s + SLACK_S else None
