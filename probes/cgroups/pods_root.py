"""Is the cgroup that all pods are in still the known one? A kubelet that restarts removes it and makes it again.

What lies below it without a claim is a foreign pod's; below an old one's successor, unknown, it would be the system's.
That it does not exist is no doubt: nothing can be in it.
"""

from __future__ import annotations

from probes.cgroups.claimed_paths import ClaimedPaths
from probes.cgroups.tracker import Tracker
from probes.observer import Observer
from probes.subjects import PodsRoot
from probes.switches.records import PODS_IDENT
from toolkit.host import cgroupfs
from toolkit.model.blind_spots import Witness


class PodsTracker(Tracker[PodsRoot]):
    """Follows the cgroup of all pods."""

    def __init__(self, observer: Observer, names: ClaimedPaths) -> None:
        super().__init__(observer, names)
        self._astray = False

    def claim(self, pods: PodsRoot) -> None:
        """Let a new cgroup of its name be that of all pods at once."""
        legacy = {name for name, _ in self._observer.hierarchy.legacy}
        self._names.claim(pods.path, self._observer.options.max_claims, PODS_IDENT, legacy)

    def _missing(self, one: PodsRoot, now_ns: int) -> None:
        """On a hybrid host pods may be in the v1 hierarchies alone, where the programs do not look."""
        astray = bool(cgroupfs.tids(self._observer.hierarchy, one.path))
        if astray and self._astray:  # not only for the moment in which the v2 directory is being made
            text = f"{one.path}, where all pods are, is not in the v2 hierarchy: its tasks count as the system's"
            self._observer.blind(text, Witness.SWITCHES, start_ns=one.checked_ns, end_ns=now_ns)
        self._astray = astray

    def _found_out(self, one: PodsRoot, number: int, now_ns: int) -> None:
        """Publish the new one first: between the two nothing of it would be a pod's."""
        old = one.cgroup_id
        self._observer.publish_pods(one)
        if old not in (0, number):
            self._observer.ledger.drop_root(old)
        text = f"{one.path}, where all pods are, was made anew: for a while its tasks counted as the system's"
        self._observer.blind(text, Witness.SWITCHES, start_ns=one.checked_ns, end_ns=now_ns)

    def _unchanged(self, one: PodsRoot) -> None:
        """Its v1 cpuset may have been made after it was published."""
        self._track_legacy(one)
