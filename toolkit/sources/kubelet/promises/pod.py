"""What a pod and its containers can be promised: which own CPUs, which values, which limits of huge pages.

Values are those of the request; where none is known, what the kubelet asked the runtime for. A kubelet whose process is
not seen cannot be asked for its version: what it has written shows how old it is at least, and what older ones do
otherwise is promised neither way.

Source: docs/facts.md K-quota, K-shares, K-pod, K-kubelet-4; KEP-5526 "ResourceIsolationLevel"; Kubernetes CRI API v1,
``LinuxContainerResources``; :mod:`toolkit.kubernetes.releases`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from toolkit.allocation.cgroup_values import MIN_QUOTA_US, CpuValues, pod_values
from toolkit.allocation.cpu.requests import exclusive_cpus
from toolkit.allocation.planner import hugepage_limits
from toolkit.errors import InputError
from toolkit.host.hugetlb import size_name
from toolkit.kubernetes.feature_gates import NO_QUOTA_WITH_EXCLUSIVE_CPUS, POD_LEVEL_RESOURCES, FeatureGates
from toolkit.kubernetes.kubelet_version import SERIES, series_of
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import HUGEPAGES_PREFIX, MEMORY, Container, Pod, effective_requests
from toolkit.kubernetes.quantity import Quantity
from toolkit.kubernetes.releases import (
    ALLOCATED_STATE,
    API_REPORTS_POOL,
    GATE,
    INIT_CONTAINERS_COUNT,
    OWNERS_WITHOUT_QUOTA,
    POD_BUDGETS,
    Behaviour,
    Series,
    least,
)
from toolkit.model.claims import NO_QUOTA, Claim, HugepageLimit, Isolation, SubjectKind
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.evidence.following import LIMITS
from toolkit.model.layers import ApiCpus
from toolkit.model.memory_units import NO_LIMIT
from toolkit.model.node_reading import Asked, MissingPart, NodeReading
from toolkit.model.state_files import CpuStateFile
from toolkit.sources.kubelet.configuration import Settings
from toolkit.sources.kubelet.files.cgroups import files_of
from toolkit.sources.kubelet.pods import actuated, allocations
from toolkit.sources.kubelet.subjects import Subject, merged_tree
from toolkit.text.names import to_path
from toolkit.text.wording import count


class Owners:
    """:param pods: what is known of them, by UID. :param cpu: ``None``: no state file that a kubelet would take.

    :param lesser: UIDs of pods whose cgroup is that of a pod which is not Guaranteed. The kubelet has seen the whole
        pod; what is known of one here may lack its init containers, whose requests count for its class.
    """

    def __init__(
        self, config: NodeConfig, pods: Mapping[str, Pod], cpu: CpuStateFile | None, lesser: frozenset[str]
    ) -> None:
        self.pods, self._lesser = pods, lesser
        self.static = config.cpu_manager_policy == "static"
        self._gates = config.feature_gates
        self._known = not self.static or (cpu is not None and bool(cpu.default or cpu.entries or cpu.pods))
        """Whether it can be said what owns CPUs: owners have no quota, so without it no quota is known. A file that
        says nothing is that of a manager that has not started yet."""
        self.entries = {(entry.pod_uid, entry.container): entry.cpus for entry in (cpu.entries if cpu else ())}
        self.pod_sets = {entry.pod_uid: entry.cpus for entry in (cpu.pods if cpu else ())}

    def may_own_unknown(self, subject: Subject) -> bool:
        """Whether it is not known if a container shares or owns CPUs, or is one at all."""
        owns = any(uid == subject.pod_uid for uid, _ in self.entries)
        return subject.nameless and (owns or not subject.threads)

    def unknown(self, subjects: Iterable[Subject]) -> str:
        """Say of how many that is not known; empty: of none."""
        number = sum(self.may_own_unknown(one) for one in subjects)
        cgroups = count(number, "cgroup of a pod", "cgroups of pods")
        return f"{cgroups}: not known which container {'it is' if number == 1 else 'each is'}" if number else ""

    def requested(self, uid: str, name: str) -> tuple[Pod | None, Container | None]:
        """Return a pod and its container as they were asked for, as far as they are known."""
        pod = self.pods.get(uid)
        return pod, pod.container(name) if pod else None

    def isolation(self, uid: str, name: str, asked_quota_us: int | None = None) -> Isolation:
        """Return what shares the CPUs of a container.

        :param asked_quota_us: by the runtime's word. In a pod with CPUs of its own whose requests are not known it is
            the containers that share which are asked a quota for, and owners for none.
        """
        if (uid, name) not in self.entries:
            return Isolation.HOST
        if uid not in self.pod_sets:
            return Isolation.CONTAINER
        pod, container = self.requested(uid, name)
        if pod is not None and container is not None:
            return Isolation.CONTAINER if self._asks_for_own(uid, pod, container) else Isolation.POD
        if self._gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS] and asked_quota_us:
            return Isolation.POD if asked_quota_us > 0 else Isolation.CONTAINER
        same = [key for key, cpus in self.entries.items() if key[0] == uid]
        cpus = self.entries[uid, name]
        return Isolation.POD if sum(self.entries[key] == cpus for key in same) > 1 else Isolation.CONTAINER

    def quota_known(self, uid: str, pod: Pod, container: Container) -> bool:
        """Whether a quota can be promised: a container that asks for CPUs of its own has none once it has got them,
        and keeps them when the state file forgets it.
        """
        forgotten = (
            self.static and (uid, container.name) not in self.entries and self._asks_for_own(uid, pod, container)
        )
        return self._known and not forgotten

    def _asks_for_own(self, uid: str, pod: Pod, container: Container) -> bool:
        return uid not in self._lesser and bool(own_cpus(pod, container, self._gates))


def own_cpus(pod: Pod, container: Container, gates: FeatureGates) -> int:
    """Return how many CPUs of its own a container asks for; 0: none."""
    managed = gates.pod_level_managers
    # Nothing looks after a budget without the gate: its containers share the node's pool, with their quotas.
    if pod.pod_level and not managed:
        return 0
    return exclusive_cpus(pod, container, pod_level_managers=managed)


_SHOWN = 3
_OWN = "nothing is promised about their own cgroups"


def asked_of(subject: Subject) -> Asked:
    """Return the runtime's word; of a container that it does not list nothing."""
    return (subject.runtime.asked if subject.runtime else None) or Asked()


def agreed(values: CpuValues, *others: CpuValues) -> Asked:
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


def memory_of(values: Asked, subject: Subject) -> int | None:
    """Return the limit of memory that a container is promised.

    None is promised where its request has none and the runtime was told none: what stands there then nothing asked for.
    A runtime that was told a limit by others (an NRI plugin, its own base specification) is not the kubelet's promise.
    Source: Kubernetes documentation, Assign Memory Resources ("no upper bound"); CRI API v1, ``memory_limit_in_bytes``.
    """
    told = subject.runtime is not None and subject.runtime.asked is not None
    if values.memory_bytes == NO_LIMIT and not (told and (asked_of(subject).memory_bytes or 0) <= 0):
        return None
    return values.memory_bytes


def taken(asked: Asked) -> Asked:
    """Return of what the runtime was asked for what a kernel takes: of the rest nothing was promised."""
    quota = None if asked.quota_us is None else -1 if asked.quota_us <= 0 else asked.quota_us
    period = asked.period_us if asked.period_us and asked.period_us > 0 else None
    if quota is not None and quota != -1 and not (quota >= MIN_QUOTA_US and 1000 <= (period or 100_000) <= 1_000_000):
        quota = None
    shares = asked.shares if asked.shares is not None and MIN_SHARES <= asked.shares <= MAX_SHARES else None
    memory = asked.memory_bytes if asked.memory_bytes is not None and asked.memory_bytes > 0 else None
    return Asked(quota_us=quota, period_us=period, shares=shares, memory_bytes=memory)


def not_known(claims: Iterable[Claim], pods: Collection[str], partial: Collection[str]) -> tuple[MissingPart, ...]:
    """Name the pods of which some limits are not promised: their requests are known to nothing, or not as a whole.

    :param claims: of containers. :param pods: UIDs of pods whose requests are known. :param partial: of those whose
        containers' roles are not.
    """
    running = {claim.pod_uid: claim.pod for claim in claims if claim.kind is SubjectKind.CONTAINER and claim.pod_uid}
    unknown = sorted(name for uid, name in running.items() if uid not in pods)
    roles = sorted(name for uid, name in running.items() if uid in partial)
    found = []
    if unknown:
        own = (
            "huge pages and their own cgroups; quotas, weights and limits of memory are what the runtime was asked for"
        )
        found.append(f"the requests of {_named(unknown)} are not known: nothing is promised about their {own}")
    if roles:
        found.append(f"which containers of {_named(roles)} are init containers is not known: {_OWN}")
    return tuple(MissingPart(part=LIMITS, reason=reason) for reason in found)


def _named(pods: list[str]) -> str:
    more = f", and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else ""
    return f"{count(len(pods), 'pod')} ({', '.join(pods[:_SHOWN])}{more})"


Has = Callable[[str, int], bool]
"""Whether a cgroup (its path) has a limit of huge pages of this size (bytes)."""
_SHOWN_HUGE = 3


def huge_pages_of_container(subject: Subject, container: Container) -> tuple[HugepageLimit, ...]:
    """Return the limits of a request which the container's runtime was told."""
    told = (subject.runtime.huge_sizes if subject.runtime else None) or ()
    return tuple(limit for limit in hugepage_limits(container) if size_name(limit.page_bytes) in told)


def huge_pages_of_pod(pod: Pod) -> tuple[HugepageLimit, ...]:
    """Return the limits of a pod's cgroup: of what its containers request together."""
    return tuple(
        HugepageLimit(page_bytes=Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value, limit_bytes=amount.value)
        for name, amount in sorted(effective_requests(pod).items())
        if name.startswith(HUGEPAGES_PREFIX) and amount
    )


def untold(subject: Subject, container: Container) -> bool:
    """Whether a container requests huge pages of which its runtime limits it none."""
    return len(huge_pages_of_container(subject, container)) < len(hugepage_limits(container))


def left_to_pods(names: Iterable[str]) -> tuple[MissingPart, ...]:
    """Name the containers of which that is so."""
    found = sorted(names)
    if not found:
        return ()
    reason = f"huge pages of {_these(found, 'container')}: their runtime was told no limit, their pods' cgroups have it"
    return (MissingPart(part=LIMITS, reason=reason),)


def has_file_in(reading: NodeReading) -> Has:
    """Say it by the control files that were read."""
    tree = merged_tree(reading)
    return lambda cgroup, page_bytes: any(name in tree.get(cgroup, {}) for name in files_of(page_bytes))


def enforced(claims: Iterable[Claim], has: Has) -> tuple[tuple[Claim, ...], tuple[MissingPart, ...]]:
    """Return claims without limits for which a cgroup has no control file: nothing carries them out. And what is not
    promised by that.
    """
    kept, without = [], []
    for claim in claims:
        limits = tuple(one for one in claim.hugepages if has(to_path(claim.cgroup), one.page_bytes))
        if limits != claim.hugepages:
            without.append(claim.name)
        kept.append(claim if limits == claim.hugepages else replace(claim, hugepages=limits))
    if not without:
        return tuple(kept), ()
    reason = f"huge pages of {_these(without, 'cgroup')}: no control file of such a limit was found"
    return tuple(kept), (MissingPart(part=LIMITS, reason=reason),)


def _these(names: list[str], what: str) -> str:
    more = f", and {len(names) - _SHOWN_HUGE} more" if len(names) > _SHOWN_HUGE else ""
    return f"{count(len(names), what)} ({', '.join(names[:_SHOWN_HUGE])}{more})"


def may_keep(versions: Versions, known: Settings, uid: str) -> bool:
    """Whether a pod's kubelet may be older than the gate: nothing knows its version, nor was the gate set."""
    config = known.config
    return (
        versions.unknown(OWNERS_WITHOUT_QUOTA, uid)
        and not known.problem
        and config.cpu_cfs_quota
        and config.feature_gates[NO_QUOTA_WITH_EXCLUSIVE_CPUS]
        and NO_QUOTA_WITH_EXCLUSIVE_CPUS not in config.feature_gates.given
    )


def with_kept(claim: Claim, subject: Subject) -> Claim:
    """Return an owner's claim with the quota that its limit gives, which is as many CPUs as it owns."""
    if claim.isolation is not Isolation.CONTAINER or claim.cpus is None or claim.quota_us != NO_QUOTA:
        return claim
    quota_us = len(claim.cpus) * claim.period_us
    asked = asked_of(subject)
    told = subject.runtime is not None and subject.runtime.asked is not None
    if told and (asked.quota_us, asked.period_us or claim.period_us) != (quota_us, claim.period_us):
        return claim
    return replace(claim, kept_quota_us=quota_us)


def with_kept_of_pod(claim: Claim, pod: Pod, known: Settings, inside: Iterable[Claim | None]) -> Claim:
    """Return a pod's claim with the quota that it has if its owners of CPUs keep theirs. :param inside: the pod's."""
    if claim.quota_us != NO_QUOTA or not any(one is not None and one.kept_quota_us is not None for one in inside):
        return claim
    kept_us = pod_values(pod, known.config, quota_disabled=False).quota_us
    return claim if kept_us is None or kept_us < 0 else replace(claim, kept_quota_us=kept_us)


class Versions:
    """Of one node. :param given: the gates that the configuration sets."""

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


_QOS = GATE["MemoryQoS"]


def least_high_bytes(subject: Subject, container: Container, known: Settings, versions: Versions) -> int | None:
    """Return how low ``memory.high`` of a container may be, by the kubelet's release and gates.

    Without MemoryQoS a kubelet asks for none. With it the formula differs from release to release, and each leaves the
    file alone where its result is no more than the request: so much no container is slowed down by. What a runtime was
    told beside (``unified`` of its specification, as NRI plugins write it) is what was asked for last.
    Source: KEP-2570; kubernetes ``pkg/kubelet/kuberuntime/kuberuntime_container_linux.go`` (``MemoryHigh``).

    :returns: :data:`NO_LIMIT`: only ``max``; ``None``: nothing is known about it.
    """
    runtime, told = subject.runtime, asked_of(subject).memory_high_bytes
    if told is not None:
        return told
    if known.problem or runtime is None or runtime.asked is None:
        return None  # what a runtime was told that does not say it may be anything
    unknown = _QOS.name not in known.given.given and versions.unknown(_QOS.by_default, subject.pod_uid)
    if not (unknown or known.config.feature_gates[_QOS.name]):
        return NO_LIMIT
    request = container.resources.requests.get(MEMORY, container.limit(MEMORY))
    return request.value if request else None
