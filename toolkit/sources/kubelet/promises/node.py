"""Claims of a kubelet's node: from state files, configuration, pods and runtime. What is missing is reported.

Source: docs/facts.md K-quota, K-shares, K-pod, K-kubelet-4; KEP-5526 "ResourceIsolationLevel".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.allocation.cgroup_values import milli_to_shares
from toolkit.allocation.checkpoint.state_files import cpu_state_file, memory_state_file
from toolkit.allocation.enforcement import enforces_pods
from toolkit.allocation.node import Node
from toolkit.allocation.startup import memory_of_all_pods
from toolkit.allocation.topology.manager import NONE
from toolkit.errors import InputError
from toolkit.kubernetes.feature_gates import POD_LEVEL_RESOURCES
from toolkit.kubernetes.kubelet_fields import field_lines, unread_lines
from toolkit.kubernetes.pod import CPU, MEMORY
from toolkit.model.claims import (
    NO_QUOTA,
    Claim,
    ClaimSet,
    SubjectKind,
    pod_claim_name,
    qos_claim_name,
)
from toolkit.model.cpu_units import MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.model.evidence.following import LIMITS
from toolkit.model.node_reading import KUBELET_STARTED, MissingPart, NodeReading
from toolkit.model.state_files import CpuStateFile, MemoryStateFile
from toolkit.sources.crio import Hooked
from toolkit.sources.kubelet.configuration import Settings, other_version, settings
from toolkit.sources.kubelet.files.cgroups import files_of
from toolkit.sources.kubelet.files.pinners import PART
from toolkit.sources.kubelet.gauges import unread
from toolkit.sources.kubelet.machine import STATIC, captured_topology, modelled_node, with_reserved
from toolkit.sources.kubelet.pod_paths import class_above, class_of, place_of
from toolkit.sources.kubelet.pods import (
    Requested,
    allocations,
    contradicted,
    manifests,
    not_promised,
    pod_documents,
    problems,
    requested,
)
from toolkit.sources.kubelet.promises.class_weight import ClassSum, class_sums, read_s
from toolkit.sources.kubelet.promises.crio import CrioPods, unjudged
from toolkit.sources.kubelet.promises.pinned import pinned_words
from toolkit.sources.kubelet.promises.pod import (
    PodFacts,
    PodPromises,
    Promise,
    Terms,
    Versions,
    apart,
    partitioned,
    pod_promises,
)
from toolkit.sources.kubelet.subjects import (
    Subject,
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
from toolkit.sources.pinned import PinnedWords
from toolkit.text.names import from_text, to_path
from toolkit.text.wording import count

Has = Callable[[str, int], bool]
"""Whether a cgroup (its path) has a limit of huge pages of this size (bytes)."""
_SHOWN = 3
"""Names in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClaims:
    """Claims of a node with where they come from."""

    claims: ClaimSet
    promises: tuple[Promise, ...]
    settings: Settings
    cpu: CpuStateFile | None
    memory: MemoryStateFile | None
    missing: tuple[MissingPart, ...]
    burstable: Mapping[str, ClassSum] = field(default_factory=dict)
    """Of which the weights of Burstable classes are sums, by cgroup: their bounds go with the time."""
    pinners_unread: str = ""
    """Why what programs beside the kubelet have pinned is not known; empty: it is, or there are none."""


def node_claims(reading: NodeReading, has: Has | None = None) -> NodeClaims:
    """Derive the claims. Never raises for what is in the reading: what cannot be used is missing.

    :param has: which limits of huge pages cgroups have; ``None``: those whose control files were read.
    """
    known = with_reserved(settings(reading), reading)
    cpu = None if reading.cpu_state is None else named(cpu_state_file(reading.cpu_state), reading)
    memory = None if reading.memory_state is None else memory_state_file(reading.memory_state)
    found, tree = subjects(reading), merged_tree(reading)
    made = _made(reading, known, None if _problem(cpu) else cpu, None if _problem(memory) else memory, found, tree)
    rows = {uid: iter(one.promises) for uid, one in made.pods.items()}
    promises = tuple(next(rows[one.pod_uid]) for one in found)
    own = tuple(promise.claim for promise in promises if promise.claim is not None)
    every = own + _apart(one for pod in made.pods.values() for one in pod.claims)
    if made.requested.pods and not known.problem and not made.contested:
        every += parent_claims(reading, tree, [claim.cgroup for claim in own], made)
    limited, unlimited = enforced(every, has or has_file_in(reading))
    promises = _with_claims(promises, limited)
    root = root_in_use(tree, found, driver_in_use(reading, known))
    left_out = (*lasting(reading, [promise.subject for promise in promises]), *leftovers(tree, found, root))
    missing = [with_cost(part.part, part.reason) for part in reading.missing if part.part != PART]
    missing += _limits_missing(made, own, unlimited)
    missing += (*left_out, *unreadable(reading, found), *unjudged(_hooked(made, found)))
    missing += not_promised(sorted({one.pod for one in found if one.pod_uid in made.contested}))
    wrong = (*_problems(reading, known, made, promises), ("cpu_state", _problem(cpu)))
    wrong += (("memory_state", _problem(memory)), *_of_beside(reading, made.words))
    missing += [with_cost(part, problem) for part, problem in wrong if problem]
    return NodeClaims(
        claims=ClaimSet(
            claims=limited,
            reserved_cpus=known.reserved,
            strict_reservation=known.strict and bool(known.reserved),
            pods_root=None if root is None else from_text(root),
            reconcile_period_s=known.reconcile_s,
        ),
        promises=promises,
        settings=known,
        cpu=cpu,
        memory=memory,
        missing=tuple(dict.fromkeys(missing)),
        burstable=made.burstable,
        pinners_unread=made.words.unread,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What was made of a reading, pod by pod.

    :param node: the kubelet in the model; why there is none; ``None``: it is not asked.
    :param requested: without the contested ones. :param contested: see :func:`contradicted`.
    """

    terms: Terms
    node: Node | str | None
    memory: MemoryStateFile | None
    requested: Requested
    contested: Mapping[str, Mapping[str, frozenset[str]]]
    burstable: Mapping[str, ClassSum]
    words: PinnedWords
    pods: Mapping[str, PodPromises]


def _made(
    reading: NodeReading,
    known: Settings,
    cpu: CpuStateFile | None,
    memory: MemoryStateFile | None,
    found: tuple[Subject, ...],
    tree: Iterable[str],
) -> _Made:
    versions = Versions(reading, known.given)
    asked_for = requested(
        reading, budgets=known.config.feature_gates[POD_LEVEL_RESOURCES], ignored=versions.may_ignore_budget
    )
    contested = {} if known.problem else contradicted(reading, _unsure(reading), known.config)
    pods = {uid: pod for uid, pod in asked_for.pods.items() if uid not in contested}
    asked_for = replace(asked_for, pods=pods)
    static = known.config.cpu_manager_policy == STATIC
    node = modelled_node(reading, known.config) if pods and static and not known.problem else None
    model = node if isinstance(node, Node) else None
    terms = Terms(settings=known, cpu=cpu, versions=versions, crio=CrioPods(reading), node=model)
    words = pinned_words(reading)
    facts = _pod_facts(reading, found, tree, asked_for, contested, cpu, memory, words)
    made = {uid: pod_promises(terms, one) for uid, one in facts.items()}
    return _Made(
        terms=terms,
        node=node,
        memory=memory,
        requested=asked_for,
        contested=contested,
        burstable=class_sums(reading, tree, asked_for),
        words=words,
        pods=made,
    )


def _limits_missing(made: _Made, own: tuple[Claim, ...], unlimited: tuple[MissingPart, ...]) -> tuple[MissingPart, ...]:
    untold = (name for one in made.pods.values() for name in one.untold)
    return (*left_to_pods(untold), *unlimited, *not_known(own, made.requested.pods, made.requested.partial))


def _hooked(made: _Made, found: Iterable[Subject]) -> dict[str, Hooked]:
    hooked = {name: one for pod in made.pods.values() for name, one in pod.hooked.items()}
    return {one.name: hooked[one.name] for one in found if one.name in hooked}


def _problems(
    reading: NodeReading, known: Settings, made: _Made, promises: tuple[Promise, ...]
) -> tuple[tuple[str, str], ...]:
    """Return for parts of a node what is wrong with them, or not known; empty: nothing."""
    versions, pods = made.terms.versions, made.pods.values()
    asked = made.requested.pods or known.problem or not any(promise.claim is not None for promise in promises)
    return (
        ("config", known.problem if reading.config or reading.kubelet_flags else ""),
        *(("config_fields", line) for line in field_lines(known.odd, versions.said)),
        *(("config_fields", line) for line in unread_lines(known.odd, known.config.feature_gates, _PROMISED)),
        ("version", other_version(reading.kubelet_version)),
        ("version", versions.unsaid(promise.subject.pod_uid for promise in promises if promise.in_state)),
        ("reserved_cpus", known.reserved_problem),
        ("alignments", _unaligned(known, made.node, sum(one.unasked for one in pods))),
        ("parents", "" if asked else "no request of a pod is known"),
        ("names", _unnamed(sum(one.unnamed for one in pods))),
        ("partition", _partitioned(promises)),
    )


_PROMISED = frozenset(("memoryThrottlingFactor",))
"""Fields of which no plan has anything, and promises have."""


def _partitioned(promises: tuple[Promise, ...]) -> str:
    found = [p.subject for p in promises if p.claim is not None and not p.in_state]
    names = sorted(one.name for one in found if one.is_workload and partitioned(one))
    if not names:
        return ""
    shown = f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
    return f"systemPartition: the CPUs of {count(len(names), 'container')} in kubepods/system ({shown})"


def _of_beside(reading: NodeReading, words: PinnedWords) -> tuple[tuple[str, str], ...]:
    """Return the same of what is read beside the layers that promise."""
    return (
        ("metrics", "" if reading.metrics is None else unread(reading.metrics)),
        *problems(reading),
        *((PART, problem) for problem in (*words.problems, words.unread)),
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


def _pod_facts(
    reading: NodeReading,
    found: Iterable[Subject],
    tree: Iterable[str],
    asked_for: Requested,
    contested: Mapping[str, Mapping[str, frozenset[str]]],
    cpu: CpuStateFile | None,
    memory: MemoryStateFile | None,
    words: PinnedWords,
) -> dict[str, PodFacts]:
    """Return what is known of each pod, by UID."""
    inside: dict[str, list[Subject]] = {}
    for one in found:
        inside.setdefault(one.pod_uid, []).append(one)
    entries: dict[str, dict[str, str]] = {}
    for entry in cpu.entries if cpu else ():
        entries.setdefault(entry.pod_uid, {})[entry.container] = entry.cpus
    own = {entry.pod_uid: entry.cpus for entry in (cpu.pods if cpu else ())}
    mems: dict[str, dict[str, CpuSet]] = {}
    for block in memory.entries if memory else ():
        nodes = mems.setdefault(block.pod_uid, {})
        nodes[block.container] = nodes.get(block.container, CpuSet()) | block.nodes
    cgroups: dict[str, list[str]] = {}
    for path in sorted(tree):
        place = place_of(path)
        if place is not None and not place.id:
            cgroups.setdefault(place.pod_uid, []).append(path)
    said = rows_of(reading)
    given = {one.id: row.devices for one in found if one.is_workload and (row := row_of(one, said)) is not None}
    return {
        uid: PodFacts(
            uid=uid,
            subjects=tuple(mine),
            requested=asked_for.pods.get(uid),
            partial=uid in asked_for.partial,
            before=asked_for.in_force.get(uid),
            contested=contested.get(uid, {}),
            entries=entries.get(uid, {}),
            own=own.get(uid),
            mems=mems.get(uid, {}),
            lesser=any(class_above(one.cgroup) for one in mine),
            pinned=words.by_id,
            devices=given,
            cgroups=tuple(cgroups.get(uid, ())),
        )
        for uid, mine in inside.items()
    }


def _apart(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the claims of pods in the order of their cgroups, each by a name of its own."""
    found: dict[str, Claim] = {}
    for claim in sorted(claims, key=lambda claim: to_path(claim.cgroup)):
        name = claim.name if claim.name not in found else apart(pod_claim_name(claim.pod), claim.pod_uid)
        found[name] = replace(claim, name=name)
    return tuple(found.values())


def _unaligned(known: Settings, node: Node | str | None, unasked: int) -> str:
    """Say why it is not known what the options promise about where CPUs lie; empty: it is, or they promise nothing.

    :param node: the kubelet in the model, or why there is none. :param unasked: owners whose requests are not known.
    """
    config = known.config
    if known.problem or not (config.cpu_manager_policy_options or config.topology_manager_policy != NONE):
        return ""
    if isinstance(node, str):
        return node
    return f"the requests of {unasked} containers with CPUs of their own are not known" if unasked else ""


def _unnamed(number: int) -> str:
    """Say of how many cgroups it is not known whether they are containers that own CPUs."""
    cgroups = count(number, "cgroup of a pod", "cgroups of pods")
    return f"{cgroups}: not known which container {'it is' if number == 1 else 'each is'}" if number else ""


BEST_EFFORT = "besteffort"


def parent_claims(reading: NodeReading, tree: Iterable[str], cgroups: Iterable[str], made: _Made) -> tuple[Claim, ...]:
    """Return the claims of those that have containers with claims below them.

    :param tree: all cgroups that were read. :param cgroups: of the containers.
    """
    node, sysfs, started_s = made.terms.node, reading.sysfs, reading.read_at_s.get(KUBELET_STARTED)
    below = tuple(map(to_path, cgroups))
    roots = {place.root for place in map(place_of, below) if place is not None}
    found = []
    for path in sorted(tree):
        qos, root = class_of(path), path in roots
        if not (qos or root) or not any(one.startswith(f"{path}/") for one in below):
            continue
        shares = MIN_SHARES if qos == BEST_EFFORT else None
        if root and node is not None and _all_cpus_online(sysfs):
            left = node.allocatable[CPU].milli if enforces_pods(node.config) else 1000 * node.machine.num_cpus
            shares = milli_to_shares(left)
        cgroup = from_text(path)
        known = made.burstable.get(cgroup)
        found.append(
            Claim(
                name=qos_claim_name(qos or "kubepods"),
                cgroup=cgroup,
                kind=SubjectKind.QOS,
                quota_us=NO_QUOTA,
                shares=shares,
                memory_bytes=_memory_of_all_pods(made) if root else None,
                shares_between=None if known is None else known.shares_between(read_s(reading), started_s),
                contended=False,
            )
        )
    return tuple(found)


def _all_cpus_online(sysfs: str | None) -> bool:
    """Whether the machine has the CPUs with which the kubelet started: with one offline these may have been others."""
    topology = captured_topology(sysfs)
    return not isinstance(topology, str) and not topology.offline


def _memory_of_all_pods(made: _Made) -> int | None:
    """Return the limit of memory of the cgroup of all pods; ``None``: how much the kubelet found is not known.

    A machine's memory may change while it runs: what there was when the kubelet started is said by the Memory Manager's
    file, where it has one.
    """
    file, known = made.memory, made.terms.settings
    if file is None or _problem(file) or known.problem:
        return None
    capacity = sum(row.total_bytes for row in file.rows if row.kind == MEMORY)
    try:
        return memory_of_all_pods(known.config, capacity) if capacity else None
    except InputError:
        return None


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
    "partition": "nothing is promised about them",
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
        found.append(f"the requests of {_these(unknown, 'pod')} are not known: nothing is promised about their {own}")
    if roles:
        found.append(
            f"which containers of {_these(roles, 'pod')} are init containers is not known: "
            "nothing is promised about their own cgroups"
        )
    return tuple(MissingPart(part=LIMITS, reason=reason) for reason in found)


def left_to_pods(names: Iterable[str]) -> tuple[MissingPart, ...]:
    """Name the containers whose runtime was told no limit of huge pages that they request."""
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
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{count(len(names), what)} ({', '.join(names[:_SHOWN])}{more})"
