"""A claim's cgroup has an identity: it may be deleted, and another one made under its name.

The kernel side (:mod:`probes.cgroups.claimed_paths`) has put the new cgroup under the claim before anybody could join
it, and dated both; here the claim follows: which id is the present one, what the counters of the old one were, and the
two changes of the claim in the evidence. Where the kernel side did not report it (a name too long for it) the ids are
compared once a second, and what that leaves unseen is a blind spot.
"""

from __future__ import annotations

import time

from probes.cgroups.claimed_paths import ClaimedPaths
from probes.cgroups.pods_root import PodsIdentity
from probes.subjects import PodsRoot, Subject
from probes.windows import Windows
from probes.witness import Witness
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model import blind_spots
from toolkit.model.evidence import Transition

GONE, MADE = "cgroup-gone", "cgroup-made"


class Identities(Witness[None]):
    """Follows the cgroups of an observer's claims."""

    SIDE = ClaimedPaths

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._names = windows.ledger.side(ClaimedPaths)
        self._pods = PodsIdentity(windows, self._names)
        self._count = 0

    def claiming(self, subject: Subject) -> None:
        """Let a new cgroup of its name be the claim's at once."""
        in_cpuset = subject.cpuset_id is not None
        subject.reported = self._names.claim(subject.claim.cgroup, subject.slot, subject.ident, in_cpuset=in_cpuset)

    def unclaiming(self, subject: Subject) -> None:
        """Let the name be nobody's."""
        self._names.forget(subject.claim.cgroup)

    def claiming_pods(self, pods: PodsRoot) -> None:
        """Let a new cgroup of its name be that of all pods at once."""
        self._pods.claim(pods)

    def unclaiming_pods(self, pods: PodsRoot) -> None:
        """Let the name be nobody's."""
        self._pods.forget(pods)

    def verify_pods(self, pods: PodsRoot) -> None:
        """Compare the number of the cgroup that all pods are in with the known one."""
        self._pods.verify(pods)

    def look(self) -> None:
        """Take note of what the kernel side reported since the last look: one load where that is nothing."""
        count = self._names.count()
        if count == self._count:
            return
        self._count = count
        if self._windows.pods is not None:
            self._pods.follow(self._windows.pods)
        for subject in self._windows.subjects.values():
            self.follow(subject)

    def follow(self, subject: Subject) -> None:
        """Take note of one claim's events."""
        windows = self._windows
        news = self._names.news(subject.claim.cgroup, subject.events)
        if news.total == subject.events:
            return
        subject.events = news.total
        if news.undated:
            # Watched they were all the same: only the changes are not all in the evidence.
            windows.blind(
                f"{subject.name}: its cgroup was deleted or made {news.undated} times more than are dated one by one",
                end_ns=time.monotonic_ns(),
            )
        made_ns = None
        for event in news.events:
            self._note(subject, MADE if event.made else GONE, event.at_ns)
            if event.made:
                self._is_now(subject, event.number)
                made_ns = event.at_ns
            elif event.number == subject.cgroup_id:
                subject.gone = True
        if windows.window is not None:
            windows.window.cgroup_changed(subject, made_ns)

    def verify(self, subject: Subject) -> None:
        """Compare the id of the cgroup that has the name now with the known one."""
        now = time.monotonic_ns()
        number = self._number(subject)
        if number not in (subject.cgroup_id, None) or (number is None) != subject.gone:
            self.follow(subject)  # the kernel side may have reported it meanwhile
            number = self._number(subject)
        if number is None and not subject.gone:
            subject.gone = True
            self._note(subject, GONE, now)
        elif number is not None and (subject.gone or number != subject.cgroup_id):
            self._found_out(subject, number, now)
        subject.checked_ns = now

    def _found_out(self, subject: Subject, number: int, now: int) -> None:
        """A new cgroup exists that nobody reported."""
        windows = self._windows
        if not subject.gone:
            self._note(subject, GONE, now)
        self._note(subject, MADE, now)
        cpuset_id = cgroupfs.cpuset_id(windows.hierarchy, subject.claim.cgroup)
        windows.ledger.add_root(number, subject.slot, subject.ident, cpuset_id)
        self._is_now(subject, number)
        windows.found_members(subject, now)
        unseen_ms = (now - subject.checked_ns) / 1e6
        windows.blind(
            f"{subject.name}: its cgroup was made anew, and for at most {unseen_ms:.0f} ms not watched",
            *(blind_spots.Witness.SWITCHES, blind_spots.Witness.MASKS, blind_spots.Witness.BANDWIDTH),
            start_ns=subject.checked_ns,
            end_ns=now,
        )
        if windows.window is not None:
            windows.window.cgroup_changed(subject)

    def _is_now(self, subject: Subject, number: int) -> None:
        if number != subject.cgroup_id:
            # Nobody can be in it any more; dying tasks have been counted as the claim's until now.
            self._windows.ledger.drop_root(subject.cgroup_id)
        subject.cgroup_id, subject.gone = number, False
        cpuset_id = cgroupfs.cpuset_id(self._windows.hierarchy, subject.claim.cgroup)
        if cpuset_id not in (None, subject.cpuset_id):
            # The old one's tasks are gone or going; the kernel side has put the new one in its place.
            self._windows.ledger.drop_cpuset(subject.cpuset_id)
            subject.cpuset_id = cpuset_id

    def _number(self, subject: Subject) -> int | None:
        try:
            return cgroupfs.cgroup_id(self._windows.hierarchy, subject.claim.cgroup)
        except InputError:
            return None

    def _note(self, subject: Subject, what: str, at_ns: int) -> None:
        window = self._windows.window
        if window is None or window.closed or at_ns < window.start_ns:
            return
        at = at_ns - window.start_ns
        window.transitions.append(
            Transition(claim=subject.name, what=what, start_at_ns=at, end_at_ns=at, cause=subject.cause)
        )
