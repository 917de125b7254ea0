"""Claims of a kubelet's node: from state files, configuration, pods and runtime. What is missing is reported.

Source: docs/facts.md K-quota, K-shares, K-pod, K-kubelet-4; KEP-5526 "ResourceIsolationLevel".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from toolkit.allocation.cgroup_values import CpuValues, container_values, milli_to_shares
from toolkit.allocation.checkpoint.state_files import cpu_state_file, memory_state_file
from toolkit.allocation.node import Node
from toolkit.allocation.promised import Promised, promised
from toolkit.allocation.qos import container_quota_disabled, pod_quota_disabled
from toolkit.allocation.topology.manager import NONE, POD_SCOPE, SINGLE_NUMA_NODE
from toolkit.kubernetes.feature_gates import POD_LEVEL_RESOURCES
from toolkit.kubernetes.kubelet_fields import field_lines, unread_lines
from toolkit.kubernetes.pod import CPU, Pod
from toolkit.kubernetes.releases import API_STATES_NODE_0
from toolkit.model.claims import (
    NO_QUOTA,
    AssignedDevice,
    Claim,
    ClaimSet,
    DeviceScope,
    Isolation,
    SubjectKind,
    pod_claim_name,
    qos_claim_name,
)
from toolkit.model.cpu_units import MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import ApiCpus
from toolkit.model.node_reading import Asked, MissingPart, NodeReading
from toolkit.model.state_files import CpuStateFile, MemoryStateFile
from toolkit.sources.crio import Hooked
from toolkit.sources.kubelet.configuration import Settings, other_version, settings
from toolkit.sources.kubelet.files.pinners import PART
from toolkit.sources.kubelet.gauges import unread
from toolkit.sources.kubelet.json_parts import parsed
from toolkit.sources.kubelet.machine import captured_topology, modelled_node, with_reserved
from toolkit.sources.kubelet.pod_paths import QOS, place_of, root_of
from toolkit.sources.kubelet.pods import (
    allocations,
    contradicted,
    manifests,
    not_promised,
    pod_documents,
    problems,
    requested,
)
from toolkit.sources.kubelet.promises.class_weight import NOTHING, ClassSum, class_sum, read_s
from toolkit.sources.kubelet.promises.crio import CrioPods, unjudged, with_hooked
from toolkit.sources.kubelet.promises.pinned import in_force, pinned_words, with_pinned
from toolkit.sources.kubelet.promises.pod import (
    Has,
    Owners,
    Versions,
    agreed,
    asked_of,
    enforced,
    has_file_in,
    huge_pages_of_container,
    huge_pages_of_pod,
    least_high_bytes,
    left_to_pods,
    may_keep,
    memory_of,
    not_known,
    taken,
    untold,
    with_kept,
    with_kept_of_pod,
)
from toolkit.sources.kubelet.subjects import (
    Subject,
    bare_claim,
    by_pod_cgroup,
    driver_in_use,
    lasting,
    leftovers,
    merged_tree,
    root_in_use,
    row_of,
    rows_of,
    subjects,
    unreadable,
)
from toolkit.sources.pinned import Pinned
from toolkit.text.names import from_text, printable, to_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What one subject was promised. :param state: CPUs by the state file; ``None``: it says nothing about it.

    :param api_cpus: how pod-resources means the CPUs of a container.
    :param pinned: the word of a program beside the kubelet that holds, where there is one: no CPUs of the state file
        are promised then.
    """

    subject: Subject
    claim: Claim | None
    state: CpuSet | None
    in_state: bool
    pod_cpus: CpuSet | None = None
    state_mems: CpuSet | None = None
    api_cpus: ApiCpus = ApiCpus.OWN
    pinned: Pinned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClaims:
    """Claims of a node with where they come from."""

    claims: ClaimSet
    promises: tuple[Promise, ...]
    settings: Settings
    cpu: CpuStateFile | None
    memory: MemoryStateFile | None
    missing: tuple[MissingPart, ...]
    burstable: ClassSum = NOTHING
    """Of which the weight of the Burstable class is a sum: its bounds go with the time."""
    pinners_unread: str = ""
    """Why what programs beside the kubelet have pinned is not known; empty: it is, or there are none."""


def node_claims(reading: NodeReading, has: Has | None = None) -> NodeClaims:
    """Derive the claims. Never raises for what is in the reading: what cannot be used is missing.

    :param has: which limits of huge pages cgroups have; ``None``: those whose control files were read.
    """
    known = with_reserved(settings(reading), reading)
    cpu = None if reading.cpu_state is None else named(cpu_state_file(reading.cpu_state), reading)
    memory = None if reading.memory_state is None else memory_state_file(reading.memory_state)
    found = subjects(reading)
    lesser = frozenset(one.pod_uid for one in found if class_of("/".join(one.cgroup.split("/")[:-2])))
    maker = _Maker(reading, known, None if _problem(cpu) else cpu, None if _problem(memory) else memory, lesser)
    promises = tuple(maker.promise(subject) for subject in found)
    own = tuple(promise.claim for promise in promises if promise.claim is not None)
    every = own + maker.pod_claims(promises) + maker.parent_claims(promises)
    limited, unlimited = enforced(every, has or has_file_in(reading))
    promises = _with_claims(promises, limited)
    tree = merged_tree(reading)
    root = root_in_use(tree, found, driver_in_use(reading, known))
    claims = ClaimSet(
        claims=limited,
        reserved_cpus=known.reserved,
        strict_reservation=known.strict and bool(known.reserved),
        pods_root=None if root is None else from_text(root),
        reconcile_period_s=known.reconcile_s,
    )
    missing = [with_cost(part.part, part.reason) for part in reading.missing if part.part != PART]
    missing += (*left_to_pods(maker.untold), *unlimited, *not_known(own, maker.pods, maker.partial))
    missing += (*lasting(reading, [promise.subject for promise in promises]), *leftovers(tree, found, root))
    missing += (*unreadable(reading, found), *unjudged(maker.hooked))
    missing += not_promised(sorted({one.pod for one in found if one.pod_uid in maker.contested}))
    for part, problem in (
        ("config", known.problem if reading.config or reading.kubelet_flags else ""),
        *(("config_fields", line) for line in field_lines(known.odd, maker.versions.said)),
        *(("config_fields", line) for line in unread_lines(known.odd, known.config.feature_gates)),
        ("version", other_version(reading.kubelet_version)),
        ("version", maker.versions.unsaid(promise.subject.pod_uid for promise in promises if promise.in_state)),
        ("reserved_cpus", known.reserved_problem),
        ("alignments", maker.unaligned or maker.unasked(promises)),
        ("parents", "" if maker.pods or known.problem or not own else "no request of a pod is known"),
        ("names", maker.owners.unknown(found)),
        ("cpu_state", _problem(cpu)),
        ("memory_state", _problem(memory)),
        ("metrics", "" if reading.metrics is None else unread(reading.metrics)),
        *problems(reading),
        *((PART, problem) for problem in (*maker.pinned.problems, maker.pinned.unread)),
    ):
        if problem:
            missing.append(with_cost(part, problem))
    said = tuple(dict.fromkeys(missing))
    return NodeClaims(
        claims=claims,
        promises=promises,
        settings=known,
        cpu=cpu,
        memory=memory,
        missing=said,
        burstable=maker.burstable,
        pinners_unread=maker.pinned.unread,
    )


def _with_claims(promises: tuple[Promise, ...], claims: tuple[Claim, ...]) -> tuple[Promise, ...]:
    """Return promises with these claims, which begin with theirs, in their order."""
    rest = iter(claims)
    return tuple(one if one.claim is None else replace(one, claim=next(rest)) for one in promises)


def _problem(file: CpuStateFile | MemoryStateFile | None) -> str:
    """Why a kubelet would not start from a state file; rule ``checkpoint`` alone speaks of such a one."""
    if file is None:
        return ""
    return file.problem or ("" if file.checksum_ok else "the checksum is not that of the content")


def _unsure(reading: NodeReading) -> dict[str, dict[str, Any]]:
    """Return the manifests by UID of pods of which nothing else says that these are theirs."""
    known = reading.static_of.keys() | allocations(reading).keys() | pod_documents(reading).keys()
    return {uid: manifest for uid, manifest in manifests(reading).items() if uid not in known}


class _Maker:
    def __init__(
        self,
        reading: NodeReading,
        known: Settings,
        cpu: CpuStateFile | None,
        memory: MemoryStateFile | None,
        lesser: frozenset[str],
    ) -> None:
        self.reading, self.known, self.cpu, self.memory = reading, known, cpu, memory
        versions = Versions(reading, known.given)
        asked_for = requested(
            reading, budgets=known.config.feature_gates[POD_LEVEL_RESOURCES], ignored=versions.may_ignore_budget
        )
        self.contested = {} if known.problem else contradicted(reading, _unsure(reading), known.config)
        """Values by pod and container of which manifest and runtime say something else."""
        self.pods = {uid: pod for uid, pod in asked_for.pods.items() if uid not in self.contested}
        self.in_force, self.partial = asked_for.in_force, asked_for.partial
        self.burstable = class_sum(reading, self.pods, self.in_force, self.partial)
        self.owners = Owners(known.config, self.pods, cpu, lesser)
        self.versions = versions
        self.pinned = pinned_words(reading)
        self.crio = CrioPods(reading)
        self.hooked: dict[str, Hooked] = {}
        """What CRI-O's hooks promise, by the container's name."""
        self.rows = rows_of(reading)
        self.untold: list[str] = []
        """Containers that request huge pages of which their runtime limits them none."""
        self.node: Node | None = None
        self.unaligned = ""
        if self.pods and self.owners.static and not known.problem:
            node = modelled_node(reading, known.config)
            if isinstance(node, Node):
                self.node = node
            elif self._options:
                self.unaligned = node

    @property
    def _options(self) -> bool:
        """Whether the configuration may promise where CPUs lie."""
        config = self.known.config
        return bool(config.cpu_manager_policy_options) or config.topology_manager_policy != NONE

    def unasked(self, promises: tuple[Promise, ...]) -> str:
        """Say of how many owners of CPUs the requests are not known: the options may promise them something."""
        if self.known.problem or not self._options:
            return ""
        owners = [p.subject for p in promises if p.in_state and p.claim is not None]
        count = sum(self.owners.requested(one.pod_uid, one.container)[1] is None for one in owners)
        return f"the requests of {count} containers with CPUs of their own are not known" if count else ""

    def promise(self, subject: Subject) -> Promise:
        workload = subject.is_workload and not self.owners.may_own_unknown(subject)
        key = (subject.pod_uid, subject.container)
        if subject.kind is SubjectKind.EPHEMERAL and (
            key in self.owners.entries or self.owners.requested(*key)[1] is not None
        ):
            # An init container that ends has no allocation either.
            subject = replace(subject, kind=SubjectKind.CONTAINER)
        in_state = workload and key in self.owners.entries
        state = None
        if workload and self.cpu is not None and self.cpu.policy == "static":
            state = parsed(self.owners.entries[key] if in_state else self.cpu.default)
        mems = self._mems(key) if workload else None
        pinned = in_force(
            self.pinned.by_id.get(subject.id) if subject.is_workload else None, state, self.known.reserved
        )
        return Promise(
            subject=subject,
            claim=self._claim(subject, state, mems, in_state, pinned) if not subject.gone else None,
            state=state if pinned is None or pinned.cpus is None else None,
            pinned=pinned,
            in_state=in_state,
            pod_cpus=parsed(self.owners.pod_sets[subject.pod_uid]) if subject.pod_uid in self.owners.pod_sets else None,
            state_mems=mems,
            api_cpus=self.versions.api_cpus(subject.pod_uid),
        )

    def _mems(self, key: tuple[str, str]) -> CpuSet | None:
        rows = [row for row in (self.memory.entries if self.memory else ()) if (row.pod_uid, row.container) == key]
        return CpuSet.union(row.nodes for row in rows) if rows else None

    def _claim(
        self, subject: Subject, state: CpuSet | None, mems: CpuSet | None, in_state: bool, pinned: Pinned | None
    ) -> Claim:
        isolation = Isolation.HOST
        if in_state:
            isolation = self.owners.isolation(subject.pod_uid, subject.container, asked_of(subject).quota_us)
        values = self._values(subject, isolation)
        pod, container = self.owners.requested(subject.pod_uid, subject.container)
        asks = pod is not None and container is not None and state and isolation is not Isolation.HOST
        pod_quota_us = None
        if pod is not None and pod.pod_level and isolation is Isolation.CONTAINER and not self.known.problem:
            # Whatever shares the pod's budget is limited by it, in the node's pool, too: an owner runs below its quota.
            pod_quota_us = self._pod_values(subject.pod_uid, pod).quota_us
        if container is not None and untold(subject, container):
            self.untold.append(subject.name)
        aligned = promised(self.node, pod, container) if self.node and pod and container and asks else Promised()
        claim = replace(
            bare_claim(subject),
            cpus=state or None,
            isolation=isolation if state else Isolation.HOST,
            mems=mems,
            quota_us=values.quota_us,
            period_us=values.period_us or 100_000,
            pod_quota_us=pod_quota_us,
            shares=values.shares,
            memory_bytes=memory_of(values, subject),
            memory_high_bytes=None
            if container is None
            else least_high_bytes(subject, container, self.known, self.versions),
            hugepages=huge_pages_of_container(subject, container) if container is not None else (),
            alignments=aligned.alignments,
            preferences=aligned.preferences,
            max_numa_nodes=aligned.max_numa_nodes,
            assigned_devices=self._devices(subject),
        )
        claim = claim if pinned is None else with_pinned(claim, pinned)
        claim = with_kept(claim, subject) if may_keep(self.versions, self.known, subject.pod_uid) else claim
        guaranteed = not class_of("/".join(subject.cgroup.split("/")[:-2]))
        hooked = self.hooked[subject.name] = self.crio.hooked(subject, guaranteed=guaranteed)
        return with_hooked(claim, hooked)

    def _devices(self, subject: Subject) -> tuple[AssignedDevice, ...]:
        """Return what the kubelet gave it. Under ``single-numa-node`` a device of which a plugin states the NUMA node
        is on that of CPUs and memory which the container, or its pod, was given for itself; a plugin that states none
        has no say there, nor has DRA. Of an old kubelet, or of one of which nothing says that it is none, node 0 is no
        statement.
        """
        row, config = row_of(subject, self.rows) if subject.is_workload else None, self.known.config
        if row is None or not row.devices:
            return ()
        promised = not self.known.problem and config.topology_manager_policy == SINGLE_NUMA_NODE
        scope = DeviceScope.POD if config.topology_manager_scope == POD_SCOPE else DeviceScope.CONTAINER
        vague = self.versions.has(API_STATES_NODE_0, subject.pod_uid) is not False
        unsaid = ((), (0,)) if vague else ((),)
        return tuple(
            replace(one, aligned=scope if promised and one.resource and one.numa_nodes not in unsaid else None)
            for one in row.devices
        )

    def _values(self, subject: Subject, isolation: Isolation) -> Asked:
        if subject.kind not in (SubjectKind.CONTAINER, SubjectKind.EPHEMERAL):
            return Asked()
        pod, container = self.owners.requested(subject.pod_uid, subject.container)
        if pod is not None and container is not None and not self.known.problem:
            disabled = container_quota_disabled(isolation, self.known.config.feature_gates)
            before = self.in_force.get(subject.pod_uid)
            old = before.container(container.name) if before is not None else None
            ways = [(pod, container), *([(before, old)] if before and old else [])]
            found = (container_values(*way, self.known.config, quota_disabled=disabled) for way in ways)
            values = agreed(*found)
            known = self.owners.quota_known(subject.pod_uid, pod, container)
            return values if known else replace(values, quota_us=None)
        asked = taken(asked_of(subject))
        contested = self.contested.get(subject.pod_uid, {}).get(subject.container, frozenset())
        asked = replace(asked, **dict.fromkeys(contested))
        # An owner has no quota, whatever was asked for it.
        owner = not self.known.problem and container_quota_disabled(isolation, self.known.config.feature_gates)
        return replace(asked, quota_us=NO_QUOTA) if owner else asked

    def parent_claims(self, promises: tuple[Promise, ...]) -> tuple[Claim, ...]:
        """Claims of the cgroups above pods; of a node whose pods are not known nothing is said about them."""
        if not self.pods or self.known.problem or self.contested:
            return ()
        cgroups = [p.subject.cgroup for p in promises if p.claim is not None]
        return parent_claims(self.reading, cgroups, self.node, self.burstable)

    def pod_claims(self, promises: tuple[Promise, ...]) -> tuple[Claim, ...]:
        """Claims of pods' own cgroups, of pods whose resources are known."""
        found: dict[str, Claim] = {}
        inside = by_pod_cgroup(promise.subject for promise in promises if promise.claim is not None)
        for path in sorted(merged_tree(self.reading)):
            place = place_of(path)
            pod = self.pods.get(place.pod_uid) if place is not None and not place.id else None
            if place is None or pod is None or self.known.problem or place.pod_uid in self.partial:
                continue
            mine = inside.get(path)
            if not mine:
                continue
            values = self._pod_values(place.pod_uid, pod)
            known = all(self.owners.quota_known(place.pod_uid, pod, one) for one in pod.containers)
            plain = mine[0].pod
            name = pod_claim_name(plain)
            if name in found or all(one.life for one in mine):
                name = f"{name}@{printable(place.pod_uid)[:12]}"
            claim = Claim(
                name=name,
                cgroup=from_text(path),
                pod=plain,
                namespace=mine[0].namespace,
                pod_uid=printable(place.pod_uid),
                container="(pod)",
                kind=SubjectKind.POD,
                quota_us=values.quota_us if known else None,
                period_us=values.period_us or 100_000,
                shares=values.shares,
                memory_bytes=values.memory_bytes,
                hugepages=huge_pages_of_pod(pod),
            )
            own = (p.claim for p in promises if p.subject.pod_uid == place.pod_uid)
            kept = may_keep(self.versions, self.known, place.pod_uid)
            claim = with_kept_of_pod(claim, pod, self.known, own) if kept else claim
            # Its hook takes the quota of the pod's cgroup with that of one container.
            free = any(one.name in self.hooked and self.hooked[one.name].quota_free for one in mine)
            found[name] = with_hooked(claim, Hooked(quota_free=True)) if free else claim
        return tuple(found.values())

    def _pod_values(self, uid: str, pod: Pod) -> Asked:
        """Of all its containers, those too that do not run now: what they own they keep."""
        found: list[CpuValues] = []
        for way in (pod, self.in_force.get(uid, pod)):
            isolations = [self.owners.isolation(uid, container.name) for container in way.containers]
            disabled = pod_quota_disabled(way, isolations, self.known.config.feature_gates)
            found += self.versions.pod_values(uid, way, self.known.config, quota_disabled=disabled)
        return agreed(*found)


BURSTABLE, BEST_EFFORT = "burstable", "besteffort"


def class_of(path: str) -> str:
    """Return the QoS class whose cgroup a path is; empty: none's. Guaranteed pods are in the cgroup of all pods."""
    above, _, name = path.rstrip("/").rpartition("/")
    found = QOS.fullmatch(name) if above and root_of(path) == above else None
    return found[1] if found else ""


def parent_claims(
    reading: NodeReading, cgroups: Iterable[str], node: Node | None, burstable: ClassSum
) -> tuple[Claim, ...]:
    """Return the claims of those that have containers with claims below them.

    :param cgroups: of the containers. :param node: the kubelet in the model, where its machine is known.
    :param burstable: what is known of that class's weight.
    """
    below = tuple(map(to_path, cgroups))
    roots = {place.root for place in map(place_of, below) if place is not None}
    found = []
    for path in sorted(merged_tree(reading)):
        qos, root = class_of(path), path in roots
        if not (qos or root) or not any(one.startswith(f"{path}/") for one in below):
            continue
        shares = MIN_SHARES if qos == BEST_EFFORT else None
        if root and node is not None and _enforced(reading, node):
            shares = milli_to_shares(node.allocatable[CPU].milli)
        found.append(
            Claim(
                name=qos_claim_name(qos or "kubepods"),
                cgroup=from_text(path),
                kind=SubjectKind.QOS,
                quota_us=NO_QUOTA,
                shares=shares,
                shares_between=burstable.shares_between(read_s(reading)) if qos == BURSTABLE else None,
                contended=False,
            )
        )
    return tuple(found)


def _enforced(reading: NodeReading, node: Node) -> bool:
    """Whether its weight is that of the machine as it is: with a CPU offline the kubelet may have started with others,
    and which CPUs an amount reserves was only computed here.
    """
    topology = captured_topology(reading.sysfs)
    whole = not isinstance(topology, str) and not topology.offline
    return whole and "pods" in node.config.enforce_node_allocatable and bool(node.config.reserved_system_cpus)


def named(file: CpuStateFile, reading: NodeReading) -> CpuStateFile:
    """Return the file with pod and container in its entries; an id that the runtime does not list stays one."""
    if file.version != 1:
        return file
    known = {entry.id: entry for entry in reading.containers or ()}
    entries = tuple(
        replace(one, pod_uid=known[one.container].pod_uid, container=known[one.container].name)
        if one.container in known
        else one
        for one in file.entries
    )
    return replace(file, entries=entries)


COSTS = {
    "config": "reserved CPUs, strictness, driver and reconcile period are not known",
    "config_fields": "what was meant by it is not in force",
    "cpu_state": "which CPUs were promised is not known, nor the quotas: owners of CPUs have none",
    "memory_state": "which memory nodes were promised is not known",
    "names": "nothing is promised about their CPUs",
    "containers": "what the kubelet asked the runtime for is not known: drift cannot be distinguished from lag",
    "pods": "ended pods are not known; requests are those that the kubelet allocated or a static pod's manifest has, "
    "else quotas and weights are what the runtime was asked for",
    "pod_folders": "which pods wait for their volumes is not known, so no CPU is called leaked",
    "pod_resources": "the pod-resources API is not compared",
    "cgroups": "what is in force is not known; paths are those that the runtime was given",
    "metrics": "the kubelet's own metrics are not compared",
    "threads": "thread masks are not known",
    "reserved_cpus": "kubeReserved and systemReserved give an amount, which CPUs these are is not known",
    "sysfs": "which CPUs are online is known of cgroups alone; on which core and NUMA node each lies is not known",
    "times": "how long after the cgroups the runtime was asked is not known: it is taken to be long",
    "allocated_pods": "resizes are known by the status of pods alone, ephemeral containers by the list of pods alone",
    "actuated_pods": "whether a resize is under way is known by the status of pods alone",
    "alignments": "what the options promise about cores and NUMA nodes is not known",
    "pinned": "nothing is promised of it; what these programs pin is judged by what else is known",
    "version": "which gates are on by default is known of each version, the rest is as the modelled one decides",
    "annotations": "nothing is promised of it",
    "parents": "nothing is promised about the cgroups of pods and QoS classes",
}


def with_cost(part: str, reason: str) -> MissingPart:
    """Return a part that is missing, with why, and what is not known because of that."""
    return MissingPart(part=part, reason=f"{reason}: {COSTS.get(part, 'it is left out')}")
