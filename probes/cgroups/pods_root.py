"""Is the cgroup that all pods are in still the known one? A kubelet that restarts removes it and makes it again.

What lies below it without a claim is a foreign pod's; below an old one's successor, unknown, it would be the system's.
The kernel side (:mod:`probes.cgroups.claimed_paths`) puts each new one in its place before anybody can join; here its
number is followed. That it does not exist is no doubt: nobody can be in it.
"""

from __future__ import annotations

import time

from probes.cgroups.claimed_paths import ClaimedPaths
from probes.subjects import PodsRoot
from probes.switches.records import PODS_IDENT
from probes.windows import Windows
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.blind_spots import Witness


class PodsIdentity:
    """Follows the cgroup of all pods; called under the lock."""

    def __init__(self, windows: Windows, names: ClaimedPaths) -> None:
        self._windows, self._names = windows, names
        self._astray = False

    def claim(self, pods: PodsRoot) -> None:
        """Let a new cgroup of its name be that of all pods at once."""
        in_cpuset = not self._windows.hierarchy.is_v2("cpuset")
        self._names.claim(pods.path, self._windows.options.max_claims, PODS_IDENT, in_cpuset=in_cpuset)

    def forget(self, pods: PodsRoot) -> None:
        """Let its name be nobody's."""
        self._names.forget(pods.path)

    def follow(self, pods: PodsRoot) -> None:
        """Take note of what the kernel side reported."""
        news = self._names.news(pods.path, pods.events)
        pods.events = news.total
        made = [event.number for event in news.events if event.made]
        for number in made[:-1]:
            self._windows.ledger.drop_root(number)
        if made:
            self._is_now(pods, made[-1])

    def verify(self, pods: PodsRoot) -> None:
        """Compare the number of the cgroup that has the name now with the known one."""
        now = time.monotonic_ns()
        number = self._number(pods)
        if number not in (None, pods.cgroup_id):
            self.follow(pods)  # the kernel side may have reported it meanwhile
            number = self._number(pods)
        if number is None:
            self._look_beside(pods, now)
        elif number != pods.cgroup_id:
            old = pods.cgroup_id
            self._windows.publish_pods(pods)
            if old is not None:
                self._windows.ledger.drop_root(old)
            text = f"{pods.path}, where all pods are, was made anew: for a while its tasks counted as the system's"
            self._windows.blind(text, Witness.SWITCHES, start_ns=pods.checked_ns, end_ns=now)
        else:
            self._is_now(pods, number)
        pods.checked_ns = now

    def _look_beside(self, pods: PodsRoot, now: int) -> None:
        """On a hybrid host pods may be in the v1 hierarchies alone, where the programs do not look."""
        astray = bool(cgroupfs.tids(self._windows.hierarchy, pods.path))
        if astray and self._astray:  # not only for the moment in which the v2 directory is being made
            text = f"{pods.path}, where all pods are, is not in the v2 hierarchy: its tasks count as the system's"
            self._windows.blind(text, Witness.SWITCHES, start_ns=pods.checked_ns, end_ns=now)
        self._astray = astray

    def _is_now(self, pods: PodsRoot, number: int) -> None:
        ledger = self._windows.ledger
        if pods.cgroup_id is not None and number != pods.cgroup_id:
            ledger.drop_root(pods.cgroup_id)
        pods.cgroup_id = number
        cpuset_id = cgroupfs.cpuset_id(self._windows.hierarchy, pods.path)
        if cpuset_id not in (None, pods.cpuset_id):
            ledger.drop_cpuset(pods.cpuset_id)
            pods.cpuset_id = cpuset_id

    def _number(self, pods: PodsRoot) -> int | None:
        try:
            return cgroupfs.cgroup_id(self._windows.hierarchy, pods.path)
        except InputError:
            return None
