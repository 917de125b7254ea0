"""What a kubelet promises to one pod: to its containers and to its own cgroup. Pure.

Values are those of the request; where none is known, what the kubelet asked the runtime for. A kubelet whose process is
not seen cannot be asked for its version: what it has written shows how old it is at least, and what older ones do
otherwise is promised neither way.

Source: docs/facts.md K-quota, K-shares, K-pod, K-kubelet-4; KEP-5526 "ResourceIsolationLevel"; Kubernetes CRI API v1,
``LinuxContainerResources``; :mod:`toolkit.kubernetes.releases`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolkit.allocation.cgroup_values import MIN_QUOTA_US, CpuValues, container_values, memory_high, pod_values
from toolkit.allocation.cpu.requests import exclusive_cpus
from toolkit.allocation.node import Node
from toolkit.allocation.planner import hugepage_limits
from toolkit.allocation.promised import Promised, promised
from toolkit.allocation.qos import container_quota_disabled, pod_quota_disabled
from toolkit.allocation.topology.manager import POD_SCOPE, SINGLE_NUMA_NODE
from toolkit.errors import InputError
from toolkit.host.hugetlb import size_name
from toolkit.kubernetes.feature_gates import NO_QUOTA_WITH_EXCLUSIVE_CPUS, POD_LEVEL_RESOURCES, FeatureGates
from toolkit.kubernetes.kubelet_fields import OLDEST
from toolkit.kubernetes.kubelet_version import SERIES, series_of
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import HUGEPAGES_PREFIX, MEMORY, Container, Pod, effective_requests
from toolkit.kubernetes.quantity import Quantity
from toolkit.kubernetes.releases import (
    ALLOCATED_STATE,
    API_REPORTS_POOL,
    API_STATES_NODE_0,
    INIT_CONTAINERS_COUNT,
    NEWEST,
    OWNERS_WITHOUT_QUOTA,
    POD_BUDGETS,
    Behaviour,
    Series,
    least,
)
from toolkit.model.claims import (
    NO_QUOTA,
    AssignedDevice,
    Claim,
    DeviceScope,
    HugepageLimit,
    Isolation,
    SubjectKind,
    pod_claim_name,
)
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import ApiCpus
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.node_reading import Asked, NodeReading
from toolkit.model.state_files import CpuStateFile
from toolkit.sources.crio import Hooked
from toolkit.sources.json_parts import parsed
from toolkit.sources.kubelet.configuration import Settings
from toolkit.sources.kubelet.machine import STATIC
from toolkit.sources.kubelet.pod_paths import class_above, place_of
from toolkit.sources.kubelet.pods import actuated, allocations
from toolkit.sources.kubelet.promises.crio import CrioPods, beside_own, with_hooked
from toolkit.sources.kubelet.promises.pinned import in_force, with_pinned
from toolkit.sources.kubelet.subjects import Subject, bare_claim, by_pod_cgroup
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
class Terms:
    """What holds for each pod of a node.

    :param cpu: the CPU manager's file; ``None``: none that a kubelet would take. :param versions: which kubelet runs.
    :param crio: what CRI-O is asked for by annotations.
    :param node: the kubelet in the model, which is asked what its options promise; ``None``: it cannot be.
    """

    settings: Settings
    cpu: CpuStateFile | None
    versions: Versions
    crio: CrioPods
    node: Node | None = None

    @property
    def gates(self) -> FeatureGates:
        """Those in force."""
        return self.settings.config.feature_gates

    @property
    def static(self) -> bool:
        """Whether the CPU manager gives CPUs at all."""
        return self.settings.config.cpu_manager_policy == STATIC

    @property
    def owners_known(self) -> bool:
        """Whether it can be said what owns CPUs: owners have no quota, so without it no quota is known.

        A file that says nothing is that of a manager that has not started yet.
        """
        return not self.static or (self.cpu is not None and bool(self.cpu.default or self.cpu.entries or self.cpu.pods))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What is known of one pod.

    :param subjects: its containers, its sandbox and what else is in it.
    :param requested: what it asks for; ``None``: not known, or contested. :param partial: not its containers' roles.
    :param before: what is in force of it where a resize is under way.
    :param contested: by container, the values of which manifest and runtime say something else.
    :param entries: by container, its CPUs by the state file. :param own: those of the pod as a whole.
    :param mems: by container, its memory nodes by the state file.
    :param lesser: whether its cgroup is that of a pod which is not Guaranteed. The kubelet has seen the whole pod; what
        is known of it here may lack its init containers, whose requests count for its class.
    :param pinned: by subject's id, the word of a program beside the kubelet.
    :param devices: by subject's id, what the kubelet gave it. :param cgroups: its own ones that were read.
    """

    uid: str
    subjects: tuple[Subject, ...]
    requested: Pod | None
    partial: bool
    before: Pod | None
    contested: Mapping[str, frozenset[str]]
    entries: Mapping[str, str]
    own: str | None
    mems: Mapping[str, CpuSet]
    lesser: bool
    pinned: Mapping[str, Pinned]
    devices: Mapping[str, tuple[AssignedDevice, ...]]
    cgroups: tuple[str, ...]

    def container(self, name: str) -> Container | None:
        """Return a container as it was asked for, as far as that is known."""
        return None if self.requested is None else self.requested.container(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPromises:
    """What a pod is promised. :param promises: to its subjects, in their order. :param claims: of its own cgroups.

    :param hooked: what CRI-O's hooks promise, by the container's name.
    :param untold: containers that request huge pages of which their runtime limits them none.
    :param unnamed: how many may be containers that own CPUs, or none, or no containers.
    :param unasked: how many own CPUs and ask for what is not known.
    """

    promises: tuple[Promise, ...]
    claims: tuple[Claim, ...]
    hooked: Mapping[str, Hooked]
    untold: tuple[str, ...]
    unnamed: int
    unasked: int


def pod_promises(terms: Terms, pod: PodFacts) -> PodPromises:
    """Return what a kubelet has promised to a pod. Pure."""
    plain = [_promise(terms, pod, one) for one in pod.subjects]
    hooked = {
        one.subject.name: terms.crio.hooked(one.subject, guaranteed=not class_above(one.subject.cgroup))
        for one in plain
        if one.claim is not None
    }
    promises = tuple(
        one if one.claim is None else replace(one, claim=with_hooked(one.claim, hooked[one.subject.name]))
        for one in plain
    )
    made = [one for one in promises if one.claim is not None]
    untold = [one.subject.name for one in made if _is_untold(pod, one.subject)]
    return PodPromises(
        promises=promises,
        claims=_pod_claims(terms, pod, made, hooked),
        hooked=hooked,
        untold=tuple(untold),
        unnamed=sum(_may_own(pod, one) for one in pod.subjects),
        unasked=sum(one.in_state and pod.container(one.subject.container) is None for one in made),
    )


def partitioned(subject: Subject) -> bool:
    """Whether it is in the system's partition (``systemPartition``), where the shared pool is not its own."""
    place = place_of(to_path(subject.cgroup))
    return place is not None and place.partition


def _promise(terms: Terms, pod: PodFacts, subject: Subject) -> Promise:
    """Return what a subject was promised."""
    name, workload = subject.container, subject.is_workload and not _may_own(pod, subject)
    if subject.kind is SubjectKind.EPHEMERAL and (name in pod.entries or pod.container(name) is not None):
        # An init container that ends has no allocation either.
        subject = replace(subject, kind=SubjectKind.CONTAINER)
    in_state, state = workload and name in pod.entries, None
    # Which CPUs the system's partition has the state file does not say, and how it is held to them is not modelled.
    stated = in_state or not partitioned(subject)
    if workload and stated and terms.cpu is not None and terms.cpu.policy == STATIC:
        state = parsed(pod.entries[name] if in_state else terms.cpu.default)
    mems = pod.mems.get(name) if workload else None
    pinned = in_force(pod.pinned.get(subject.id) if subject.is_workload else None, state, terms.settings.reserved)
    if in_state:
        pinned = beside_own(terms.crio.hooked(subject, guaranteed=not class_above(subject.cgroup)), state) or pinned
    claim = None
    if not subject.gone:
        isolation = _isolation(terms, pod, name, asked_of(subject).quota_us) if in_state else Isolation.HOST
        claim = _claim(
            terms, pod, subject, replace(bare_claim(subject), cpus=state or None, isolation=isolation, mems=mems)
        )
        claim = claim if pinned is None else with_pinned(claim, pinned)
        claim = _with_kept(claim, subject) if _may_keep(terms, pod.uid) else claim
    return Promise(
        subject=subject,
        claim=claim,
        state=state if pinned is None or pinned.cpus is None else None,
        pinned=pinned,
        in_state=in_state,
        pod_cpus=None if pod.own is None else parsed(pod.own),
        state_mems=mems,
        api_cpus=terms.versions.api_cpus(pod.uid),
    )


def _claim(terms: Terms, pod: PodFacts, subject: Subject, claim: Claim) -> Claim:
    """Return a subject's claim with its values, limits and alignments. :param claim: with its CPUs, and whose."""
    container, known = pod.container(subject.container), not terms.settings.problem
    values = _values(terms, pod, subject, claim.isolation)
    found = replace(
        claim,
        isolation=claim.isolation if claim.cpus else Isolation.HOST,
        quota_us=values.quota_us,
        period_us=values.period_us or 100_000,
        shares=values.shares,
        memory_bytes=_memory_of(values, subject),
        assigned_devices=_devices(terms, pod, subject),
    )
    if pod.requested is None:
        return found
    if pod.requested.pod_level and claim.isolation is Isolation.CONTAINER and known:
        # Whatever shares the pod's budget is limited by it, in the node's pool, too: an owner runs below its quota.
        found = replace(found, pod_quota_us=_pod_values(terms, pod).quota_us)
    if container is None:
        return found
    aligned = Promised()
    if terms.node is not None and found.cpus and claim.isolation is not Isolation.HOST:
        aligned = promised(terms.node, pod.requested, container)
    return replace(
        found,
        memory_high_bytes=_least_high_bytes(terms, pod, subject, container),
        hugepages=_huge_pages(subject, container),
        alignments=aligned.alignments,
        preferences=aligned.preferences,
        max_numa_nodes=aligned.max_numa_nodes,
    )


def _values(terms: Terms, pod: PodFacts, subject: Subject, isolation: Isolation) -> Asked:
    """Return the values of a request; where none is known, what the kubelet asked the runtime for."""
    if not subject.is_workload:
        return Asked()
    known, container = not terms.settings.problem, pod.container(subject.container)
    disabled = known and container_quota_disabled(isolation, terms.gates)
    if pod.requested is not None and container is not None and known:
        ways = [(pod.requested, container)]
        if pod.before is not None and (old := pod.before.container(container.name)):
            ways.append((pod.before, old))
        values = _agreed(*(container_values(*way, terms.settings.config, quota_disabled=disabled) for way in ways))
        return values if _quota_known(terms, pod, container) else replace(values, quota_us=None)
    contested = pod.contested.get(subject.container, frozenset())
    asked = replace(_taken(asked_of(subject)), **dict.fromkeys(contested))
    # An owner has no quota, whatever was asked for it.
    return replace(asked, quota_us=NO_QUOTA) if disabled else asked


def _devices(terms: Terms, pod: PodFacts, subject: Subject) -> tuple[AssignedDevice, ...]:
    """Return what the kubelet gave it. Under ``single-numa-node`` a device of which a plugin states the NUMA node is on
    that of CPUs and memory which the container, or its pod, was given for itself; a plugin that states none has no say
    there, nor has DRA. Of an old kubelet, or of one of which nothing says that it is none, node 0 is no statement.
    """
    config = terms.settings.config
    promised = not terms.settings.problem and config.topology_manager_policy == SINGLE_NUMA_NODE
    scope = DeviceScope.POD if config.topology_manager_scope == POD_SCOPE else DeviceScope.CONTAINER
    vague = terms.versions.has(API_STATES_NODE_0, pod.uid) is not False
    unsaid = ((), (0,)) if vague else ((),)
    return tuple(
        replace(one, aligned=scope if promised and one.resource and one.numa_nodes not in unsaid else None)
        for one in pod.devices.get(subject.id, ())
    )


def _pod_claims(
    terms: Terms, pod: PodFacts, made: Sequence[Promise], hooked: Mapping[str, Hooked]
) -> tuple[Claim, ...]:
    """Return the claims of a pod's own cgroups, of which the kubelet uses one, if its requests are known as a whole."""
    if pod.requested is None or pod.partial or terms.settings.problem:
        return ()
    inside = by_pod_cgroup(one.subject for one in made)
    found = []
    for path in pod.cgroups:
        mine = inside.get(path)
        if not mine:
            continue
        values, name = _pod_values(terms, pod), pod_claim_name(mine[0].pod)
        known = all(_quota_known(terms, pod, one) for one in pod.requested.containers)
        claim = Claim(
            name=apart(name, pod.uid) if all(one.life for one in mine) else name,
            cgroup=from_text(path),
            pod=mine[0].pod,
            namespace=mine[0].namespace,
            pod_uid=printable(pod.uid),
            container="(pod)",
            kind=SubjectKind.POD,
            quota_us=values.quota_us if known else None,
            period_us=values.period_us or 100_000,
            shares=values.shares,
            memory_bytes=values.memory_bytes,
            hugepages=_huge_pages_of_pod(pod.requested),
        )
        if claim.quota_us == NO_QUOTA and any(one.claim and one.claim.kept_quota_us is not None for one in made):
            # So much it has if its owners of CPUs keep theirs.
            kept_us = pod_values(pod.requested, terms.settings.config, quota_disabled=False).quota_us
            claim = claim if kept_us is None or kept_us < 0 else replace(claim, kept_quota_us=kept_us)
        if any(one.name in hooked and hooked[one.name].quota_free for one in mine):
            # CRI-O's hook takes the quota of the pod's cgroup with that of one container.
            claim = with_hooked(claim, Hooked(quota_free=True))
        found.append(claim)
    return tuple(found)


def apart(name: str, uid: str) -> str:
    """Return the name of a pod's claim that distinguishes it from that of another pod of the same name."""
    return f"{name}@{printable(uid)[:12]}"


def _pod_values(terms: Terms, pod: PodFacts) -> Asked:
    """Of all its containers, those too that do not run now: what they own they keep."""
    assert pod.requested is not None
    found: list[CpuValues] = []
    for way in (pod.requested, pod.before or pod.requested):
        isolations = [_isolation(terms, pod, container.name) for container in way.containers]
        disabled = pod_quota_disabled(way, isolations, terms.gates)
        found += terms.versions.pod_values(pod.uid, way, terms.settings.config, quota_disabled=disabled)
    return _agreed(*found)


def _may_own(pod: PodFacts, subject: Subject) -> bool:
    """Whether it is not known if a container shares or owns CPUs, or is one at all."""
    return subject.nameless and (bool(pod.entries) or not subject.threads)


def _isolation(terms: Terms, pod: PodFacts, name: str, asked_quota_us: int | None = None) -> Isolation:
    """Return what shares the CPUs of a container.

    :param asked_quota_us: by the runtime's word. In a pod with CPUs of its own whose requests are not known it is the
        containers that share which are asked a quota for, and owners for none.
    """
    if name not in pod.entries:
        return Isolation.HOST
    if pod.own is None:
        return Isolation.CONTAINER
    container = pod.container(name)
    if container is not None:
        return Isolation.CONTAINER if _asks_for_own(terms, pod, container) else Isolation.POD
    if terms.gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS] and asked_quota_us:
        return Isolation.POD if asked_quota_us > 0 else Isolation.CONTAINER
    same = sum(cpus == pod.entries[name] for cpus in pod.entries.values())
    return Isolation.POD if same > 1 else Isolation.CONTAINER


def _quota_known(terms: Terms, pod: PodFacts, container: Container) -> bool:
    """Whether a quota can be promised: a container that asks for CPUs of its own has none once it has got them, and
    keeps them when the state file forgets it.
    """
    forgotten = terms.static and container.name not in pod.entries and _asks_for_own(terms, pod, container)
    return terms.owners_known and not forgotten


def _asks_for_own(terms: Terms, pod: PodFacts, container: Container) -> bool:
    assert pod.requested is not None
    return not pod.lesser and bool(own_cpus(pod.requested, container, terms.gates))


def own_cpus(pod: Pod, container: Container, gates: FeatureGates) -> int:
    """Return how many CPUs of its own a container asks for; 0: none."""
    managed = gates.pod_level_managers
    # Nothing looks after a budget without the gate: its containers share the node's pool, with their quotas.
    if pod.pod_level and not managed:
        return 0
    return exclusive_cpus(pod, container, pod_level_managers=managed)


def asked_of(subject: Subject) -> Asked:
    """Return the runtime's word; of a container that it does not list nothing."""
    return (subject.runtime.asked if subject.runtime else None) or Asked()


def _agreed(values: CpuValues, *others: CpuValues) -> Asked:
    """Return the values of a request.

    :param others: those in force before a resize that is under way, or of a kubelet of another version: what differs is
        not promised, since the one or the other may be in the cgroup.
    """
    memory = NO_LIMIT if values.memory_bytes is None else values.memory_bytes
    return Asked(
        quota_us=values.quota_us if all(one.quota_us == values.quota_us for one in others) else None,
        period_us=values.period_us,
        shares=values.shares if all(one.shares == values.shares for one in others) else None,
        memory_bytes=memory if all(one.memory_bytes == values.memory_bytes for one in others) else None,
    )


def _memory_of(values: Asked, subject: Subject) -> int | None:
    """Return the limit of memory that a container is promised.

    None is promised where its request has none and the runtime was told none: what stands there then nothing asked for.
    A runtime that was told a limit by others (an NRI plugin, its own base specification) is not the kubelet's promise.
    Source: Kubernetes documentation, Assign Memory Resources ("no upper bound"); CRI API v1, ``memory_limit_in_bytes``.
    """
    told = subject.runtime is not None and subject.runtime.asked is not None
    if values.memory_bytes == NO_LIMIT and not (told and (asked_of(subject).memory_bytes or 0) <= 0):
        return None
    return values.memory_bytes


def _taken(asked: Asked) -> Asked:
    """Return of what the runtime was asked for what a kernel takes: of the rest nothing was promised."""
    quota = None if asked.quota_us is None else -1 if asked.quota_us <= 0 else asked.quota_us
    period = asked.period_us if asked.period_us and asked.period_us > 0 else None
    if quota is not None and quota != -1 and not (quota >= MIN_QUOTA_US and 1000 <= (period or 100_000) <= 1_000_000):
        quota = None
    shares = asked.shares if asked.shares is not None and MIN_SHARES <= asked.shares <= MAX_SHARES else None
    memory = asked.memory_bytes if asked.memory_bytes is not None and asked.memory_bytes > 0 else None
    return Asked(quota_us=quota, period_us=period, shares=shares, memory_bytes=memory)


def _huge_pages(subject: Subject, container: Container) -> tuple[HugepageLimit, ...]:
    """Return the limits of a request which the container's runtime was told."""
    told = (subject.runtime.huge_sizes if subject.runtime else None) or ()
    return tuple(limit for limit in hugepage_limits(container) if size_name(limit.page_bytes) in told)


def _huge_pages_of_pod(pod: Pod) -> tuple[HugepageLimit, ...]:
    """Return the limits of a pod's cgroup: of what its containers request together."""
    return tuple(
        HugepageLimit(page_bytes=Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value, limit_bytes=amount.value)
        for name, amount in sorted(effective_requests(pod).items())
        if name.startswith(HUGEPAGES_PREFIX) and amount
    )


def _is_untold(pod: PodFacts, subject: Subject) -> bool:
    """Whether a container requests huge pages of which its runtime limits it none."""
    container = pod.container(subject.container)
    return container is not None and len(_huge_pages(subject, container)) < len(hugepage_limits(container))


def _may_keep(terms: Terms, uid: str) -> bool:
    """Whether owners of CPUs in a pod may have a quota although none was promised: of a kubelet that may be older than
    v1.33. Nothing knows its version, nor was the gate set. What would be its quota is a doubt, any other is wrong.
    """
    config = terms.settings.config
    return (
        terms.versions.unknown(OWNERS_WITHOUT_QUOTA, uid)
        and not terms.settings.problem
        and config.cpu_cfs_quota
        and config.feature_gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS]
        and NO_QUOTA_WITH_EXCLUSIVE_CPUS not in config.feature_gates.given
    )


def _with_kept(claim: Claim, subject: Subject) -> Claim:
    """Return an owner's claim with the quota that its limit gives, which is as many CPUs as it owns."""
    if claim.isolation is not Isolation.CONTAINER or claim.cpus is None or claim.quota_us != NO_QUOTA:
        return claim
    quota_us = len(claim.cpus) * claim.period_us
    asked = asked_of(subject)
    told = subject.runtime is not None and subject.runtime.asked is not None
    if told and (asked.quota_us, asked.period_us or claim.period_us) != (quota_us, claim.period_us):
        return claim
    return replace(claim, kept_quota_us=quota_us)


def _least_high_bytes(terms: Terms, pod: PodFacts, subject: Subject, container: Container) -> int | None:
    """Return how low ``memory.high`` of a container may be: what a kubelet of its release and gates asks for.

    What a runtime was told beside (``unified`` of its specification, as kubelets with MemoryQoS and NRI plugins have it
    written) is what was asked for last. Where the result depends on the node's memory it is more than the request.
    Source: docs/facts.md K-high; :func:`toolkit.allocation.cgroup_values.memory_high`.

    :returns: :data:`NO_LIMIT`: only ``max``; ``None``: nothing is known about it.
    """
    runtime, told = subject.runtime, asked_of(subject).memory_high_bytes
    if told is not None:
        return told
    if terms.settings.problem or runtime is None or runtime.asked is None:
        return None  # what a runtime was told that does not say it may be anything
    config = terms.settings.config
    asked = {memory_high(container, config.of_series(series)) for series in terms.versions.possible(pod.uid)}
    if asked == {NO_LIMIT}:
        return NO_LIMIT
    if None in asked:
        request = container.resources.requests.get(MEMORY, container.limit(MEMORY))
        return request.value or None
    return min(one for one in asked if one is not None and one != NO_LIMIT)


class Versions:
    """Which kubelet runs, as far as what is there shows it where nothing says it.

    :param given: the gates that the configuration sets.
    """

    def __init__(self, reading: NodeReading, given: FeatureGates) -> None:
        self.said = _said_version(reading)
        self._given = given.given
        self._why = bool(reading.kubelet_version) or any(part.part == "version" for part in reading.missing)
        self._least = least(self._given, reading.metrics or "")
        self._allocated = {**allocations(reading), **actuated(reading)}

    def has(self, behaviour: Behaviour, uid: str) -> bool | None:
        """Return whether the kubelet does that; ``None``: nothing could ask it, and nothing shows how old it is.

        :param uid: of a pod that it runs.
        """
        if self.said is not None:
            return behaviour.of(self.said)
        written = ALLOCATED_STATE.since if uid in self._allocated else None
        return behaviour.at_least(max(self._least, written or (0, 0)))

    def possible(self, uid: str) -> tuple[Series, ...]:
        """Return the series of which the kubelet may be. :param uid: of a pod that it runs."""
        if self.said is not None:
            return (self.said,)
        written = ALLOCATED_STATE.since if uid in self._allocated else None
        oldest = max(self._least, written or (0, 0), OLDEST)
        return tuple((NEWEST[0], minor) for minor in range(oldest[1], NEWEST[1] + 1))

    def unknown(self, behaviour: Behaviour, uid: str) -> bool:
        """Whether a kubelet that nothing could ask may do that or not."""
        return self.said is None and self.has(behaviour, uid) is None

    def api_cpus(self, uid: str) -> ApiCpus:
        """Return how its pod-resources API means the CPUs of a container. :param uid: of its pod."""
        pool = self.has(API_REPORTS_POOL, uid)
        return ApiCpus.EITHER if pool is None else ApiCpus.POOL if pool else ApiCpus.OWN

    def unsaid(self, uids: Iterable[str]) -> str:
        """Say that the version is not known where that matters; empty: it is known, or it is said why it is not.

        :param uids: of pods that own CPUs.
        """
        if self._why or not any(self.unknown(OWNERS_WITHOUT_QUOTA, uid) for uid in uids):
            return ""
        return "no part of the capture says which version the kubelet has"

    def may_ignore_budget(self, uid: str) -> bool:
        """Whether it may not look at a pod's own resources."""
        written = self._allocated.get(uid, {}).get("PodLevelResources")
        return POD_LEVEL_RESOURCES not in self._given and not written and self.unknown(POD_BUDGETS, uid)

    def pod_values(self, uid: str, pod: Pod, config: NodeConfig, *, quota_disabled: bool) -> tuple[CpuValues, ...]:
        """Return what may be the values of a pod's cgroup."""
        counts = self.has(INIT_CONTAINERS_COUNT, uid)
        ways = (True, False) if counts is None else (counts,)
        return tuple(pod_values(pod, config, quota_disabled=quota_disabled, init_counts=way) for way in ways)


def _said_version(reading: NodeReading) -> Series | None:
    """Return the version as it was said; what is built from no release calls itself v0.0.0, and is taken for new."""
    version = reading.kubelet_version
    if not version:
        return None
    try:
        found = series_of(version, "kubelet_version")
    except InputError:
        return None
    return found if found[0] else SERIES
