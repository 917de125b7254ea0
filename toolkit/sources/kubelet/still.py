"""What one reading of a node says beside the layers, as a :class:`~toolkit.model.picture.Picture`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.errors import InputError
from toolkit.model.claims import Isolation, SubjectKind
from toolkit.model.cpuset import CpuSet
from toolkit.model.layers import ApiCpus
from toolkit.model.node_reading import STATE_WRITTEN, NodeReading
from toolkit.model.picture import Picture, RejectedPod, Unlisted
from toolkit.model.runtimes import INIT_NAMES, PINNED_NS
from toolkit.sources.kubelet.claims import NodeClaims, Promise
from toolkit.sources.kubelet.counted import miscounted
from toolkit.sources.kubelet.gauges import manager_gauges
from toolkit.sources.kubelet.given_up import had_own
from toolkit.sources.kubelet.json_parts import mapping, parsed, text
from toolkit.sources.kubelet.lost import lasting, lost
from toolkit.sources.kubelet.overdue import SLACK_S, overdue_s
from toolkit.sources.kubelet.pod_paths import CONMON, expand
from toolkit.sources.kubelet.subjects import PAUSE, Subject, merged_tree, shown_pod
from toolkit.text.names import from_text, printable

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


def asked_of(promise: Promise) -> CpuSet | None:
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
        and (asked := asked_of(p)) is not None
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
        if p.claim is not None and p.state and p.state == _granted(p.subject) != (asked_of(p) or p.state)
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
    return given and not _pinned(subject, own, tree) and _granted(subject) != asked_of(promise)


def _pinned(subject: Subject, own: CpuSet | None, tree: dict[str, dict[str, str]]) -> bool:
    """Whether a cgroup has a set of its own. :param own: what was written to it. :param tree: by claims' names."""
    above = tree.get(subject.cgroup.rpartition("/")[0], {})
    return bool(own) and own not in (parsed(above[name]) for name in _GRANTED if name in above)


def may_begin(subject: Subject, reading: NodeReading) -> bool | None:
    """Whether the runtime may have been at work in a container when its threads were read; ``None``: nothing says.

    By the runtime's word: any task can call itself as a runtime's do.
    """
    runtime, at_s = subject.runtime, reading.read_at_s.get("threads_read")
    if runtime is not None and runtime.state not in ("running", ""):
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
        return CpuSet.union(CpuSet.of(row.cpus) for row in reading.pod_resources)
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
