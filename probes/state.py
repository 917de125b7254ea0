"""What the parts of an observer share: the lock, the claims that are watched, and what was published of them.

The lowest layer: it knows no window, no thread and no observer. :mod:`probes.windows` stands on it, and
:mod:`probes.observer` on both, so that no part needs to know what put it together.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from probes.blindness import Blindness
from probes.subjects import PodsRoot, Subject
from probes.switches.ledger import Ledger
from probes.switches.members import record_members
from probes.switches.published import Bound, Published
from probes.switches.records import PODS_IDENT
from probes.switches.trails import Trails
from toolkit.errors import InputError
from toolkit.host import cgroup_members, cgroupfs
from toolkit.host.cgroup_mounts import read_control
from toolkit.host.cgroupfs import Hierarchy
from toolkit.host.kept_files import NONE_KEPT, KeptFiles
from toolkit.model.blind_spots import Witness
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Environment


class State:
    """What is watched at present, and how; everything that changes is changed under ``lock``."""

    hierarchy: Hierarchy

    def __init__(self, claims: ClaimSet, root: Path, ledger: Ledger) -> None:
        self.claims, self.root = claims, root
        self.ledger = ledger
        self.options = self.ledger.options
        self.published = Published()
        patience_ns, joining_ns = (ms * 1_000_000 for ms in (self.options.pending_ms, self.options.joining_ms))
        self.trails = Trails(patience_ns, self.ledger.moving.begun_ns, joining_ns, self._at_home)
        self.subjects: dict[str, Subject] = {}
        self.names: dict[int, str] = {}
        self.pods: PodsRoot | None = None
        self.lock = threading.RLock()
        self.sampled = CpuSet()
        self.watched = CpuSet()
        self.blindness = Blindness()
        self.kept: KeptFiles = NONE_KEPT
        """Reads control files: while it observes, an observer's own, or that of what follows the node."""
        self.kept_counters: KeptFiles = NONE_KEPT
        """Reads counters, and lists of what is in a cgroup: an observer's own, each window once."""
        self.environment: Environment | None = None
        """The machine as what observes it knows it; a window keeps what it is when it opens. ``None``: the least."""

    def _at_home(self, ident: int, cpu: int, at_ns: int) -> bool:
        bound = self.published.of(ident, at_ns)
        return bound is not None and cpu in bound.cpus

    def publish_pods(self, pods: PodsRoot) -> None:
        """Put the cgroup that all pods are in under no claim, if it exists: everything below it is a pod's."""
        try:
            pods.cgroup_id = cgroupfs.cgroup_id(self.hierarchy, pods.path)
        except InputError:
            return
        pods.legacy_ids, pods.gone = cgroupfs.legacy_ids(self.hierarchy, pods.path), False
        self.ledger.add_pods_root(pods.cgroup_id, pods.legacy_ids)
        tids = cgroupfs.tids(self.hierarchy, pods.path)
        if not record_members(self.ledger.threads, tids, PODS_IDENT, time.monotonic_ns()):
            self.ledger.members_lost += 1

    def publish(self, subject: Subject, cpus: CpuSet, grace: CpuSet = EMPTY, grace_until_ns: int = 0) -> None:
        """Let a claim's tasks be held to these CPUs from now on; parameters as for ``Ledger.publish``."""
        bound = Bound(
            at_ns=time.monotonic_ns(),
            cpus=cpus,
            since_ns=subject.since_ns,
            grace=grace,
            grace_until_ns=grace_until_ns,
        )
        self.published.claim(subject.ident, bound)
        self.ledger.publish(subject.slot, cpus, subject.since_ns, grace, grace_until_ns)

    def give_back(self, name: str, cpus: CpuSet, until_ns: int) -> None:
        """Let a claim's time on these CPUs of its set be a transition's until then (CLOCK_MONOTONIC), outside after it.

        It was promised them until a moment ago, and whatever promises is about to take them back.
        """
        with self.lock:
            subject = self.require(name)
            self.publish(subject, subject.cpus - cpus, cpus & subject.cpus, until_ns)

    def found_members(self, subject: Subject, since_ns: int | None = None) -> None:
        """Write down which threads are in a claim's cgroup now; ``since_ns``: since the claim exists, unless given."""
        tids = cgroupfs.tids(self.hierarchy, subject.claim.cgroup)
        since_ns = subject.since_ns if since_ns is None else since_ns
        joining = frozenset[int]()
        if subject.cpuset_id is not None:
            mount = self.hierarchy.controller_dir("cpuset")
            joining = frozenset(tids) - (cgroup_members.tids_below(mount, subject.claim.cgroup) or frozenset())
        if not record_members(self.ledger.threads, tids, subject.ident, since_ns, joining):
            self.ledger.members_lost += 1

    def blind(self, what: str, *witnesses: Witness, start_ns: int | None = None, end_ns: int | None = None) -> None:
        """Note something that this run cannot see, and whose evidence is incomplete by it; it goes into the coverage.

        :param start_ns, end_ns: CLOCK_MONOTONIC; it concerns the windows of that time. ``None``: all.
        """
        self.blindness.note(what, witnesses, start_ns, end_ns)

    def sighted(self, what: str) -> None:
        """Note that what was noted without an end is seen again."""
        self.blindness.end(what, time.monotonic_ns())

    def require(self, name: str) -> Subject:
        """Return a watched claim."""
        if name not in self.subjects:
            raise InputError(f"claim {name}", "not watched", "one of " + ", ".join(sorted(self.subjects)))
        return self.subjects[name]

    def cpu_came_online(self, cpu: int) -> None:
        """Bring a new CPU into the window and under the sampler."""
        with self.lock:
            self.ledger.adopt_cpu(cpu)
            self.ledger.forget_sampler(cpu)
            self.start_sampler()

    def start_sampler(self) -> None:
        """Put the sampler on every online CPU, on nohz_full CPUs where that was asked for."""
        cpus = self.ledger.online()
        if not self.options.sample_nohz_full:
            cpus -= nohz_full(self.root)
        self.sampled = self.ledger.sample(cpus)


def nohz_full(root: Path) -> CpuSet:
    """Return the CPUs that run without a tick."""
    text = (read_control(root / "sys/devices/system/cpu/nohz_full") or "").strip()
    return CpuSet() if text in ("", "(null)") else CpuSet.parse(text, "nohz_full")
