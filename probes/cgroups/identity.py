"""A claim's cgroup has an identity: it may be deleted, and another one made under its name.

The kernel side (:mod:`probes.cgroups.claimed_paths`) has put the new cgroup under the claim before anything could join
it, and dated both; here the claim follows: which id is the present one, what the counters of the old one were, and the
two changes of the claim in the evidence. Where the kernel side did not report it (a name too long for it) the ids are
compared once a second, and what that leaves unseen is a blind spot.
"""

from __future__ import annotations

import time

from probes.cgroups.claimed_paths import ClaimedPaths, News
from probes.cgroups.pods_root import PodsTracker
from probes.cgroups.tracker import Tracker
from probes.observer import Observer
from probes.subjects import PodsRoot, Subject
from probes.witness import Edge, OpenWindow, Watch, Witness
from toolkit.host import cgroupfs
from toolkit.model import blind_spots
from toolkit.model.evidence import Transition
from toolkit.model.runtimes import SETUP_NS

GONE, MADE = "cgroup-gone", "cgroup-made"


class ClaimTracker(Tracker[Subject]):
    """Follows the cgroup of a claim: each of its lives is a transition, and its tasks are the claim's."""

    def _reported(self, one: Subject, news: News) -> None:
        """Date the events, and read what the new cgroup has."""
        observer = self._observer
        if news.undated:
            # Watched they were all the same: only the changes are not all in the evidence.
            observer.blind(
                f"{one.name}: its cgroup was deleted or made {news.undated} times more than are dated one by one",
                end_ns=time.monotonic_ns(),
            )
        for event in news.events:
            self._note(one, MADE if event.made else GONE, event.at_ns)
        if observer.window is not None:
            made_ns = max((event.at_ns for event in news.events if event.made), default=None)
            observer.window.cgroup_changed(one, made_ns)

    def _missing(self, one: Subject, now_ns: int) -> None:
        """It was deleted, and nothing reported it."""
        if one.gone:
            return
        self._note(one, GONE, now_ns)
        if not self._observer.ledger.observed:  # else that says how much it used after its counters were read last
            self._observer.blind(
                f"{one.name}: its cgroup was deleted, and what it used at last was not read",
                blind_spots.Witness.BANDWIDTH,
                start_ns=one.checked_ns,
                end_ns=now_ns,
            )

    def _found_out(self, one: Subject, number: int, now_ns: int) -> None:
        """Put the new one under the claim: what ran in it until now was no claim's."""
        observer = self._observer
        if not one.gone:
            self._note(one, GONE, now_ns)
        self._note(one, MADE, now_ns)
        observer.ledger.add_root(number, one.slot, one.ident, cgroupfs.legacy_ids(observer.hierarchy, one.path))
        self._is_now(one, number)
        observer.found_members(one, now_ns)
        unseen_ms = (now_ns - one.checked_ns) / 1e6
        observer.blind(
            f"{one.name}: its cgroup was made anew, and for at most {unseen_ms:.0f} ms not watched",
            *(blind_spots.Witness.SWITCHES, blind_spots.Witness.MASKS, blind_spots.Witness.BANDWIDTH),
            start_ns=one.checked_ns,
            end_ns=now_ns,
        )
        if observer.window is not None:
            observer.window.cgroup_changed(one)

    def _note(self, one: Subject, what: str, at_ns: int) -> None:
        """Note it in the window in which it happened, which may be the one that has just ended; and a cgroup that is
        still being set up when the next one opens in that, too, before its begin.
        """
        if what == MADE:
            one.made_ns = at_ns
        for window in self._observer.live():
            ended = window.closed and at_ns > window.end_ns
            if not ended and (at_ns >= window.start_ns or in_setup(one, window.start_ns)):
                noted(window, one, what, at_ns)


def in_setup(one: Subject, at_ns: int) -> bool:
    """Return whether the claim's cgroup was made so short a time before that its runtime may still be at work."""
    return 0 < at_ns - one.made_ns <= SETUP_NS and not one.gone


def noted(window: OpenWindow, one: Subject, what: str, at_ns: int) -> None:
    """Write it into a window; before its begin the time is negative."""
    at = at_ns - window.start_ns
    window.transitions.append(Transition(claim=one.name, what=what, start_at_ns=at, end_at_ns=at, cause=one.cause))


class Identities(Witness):
    """Follows the cgroups of an observer's claims, and that of all pods."""

    SIDE = ClaimedPaths

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._names = observer.ledger.side(ClaimedPaths)
        self._claims = ClaimTracker(observer, self._names)
        self._pods = PodsTracker(observer, self._names)
        self._count = 0

    def begin(self, window: OpenWindow, first: Edge) -> Watch:
        """Let a window know of cgroups that are being set up when it opens."""
        for subject in self._observer.subjects.values():
            if in_setup(subject, window.start_ns):
                noted(window, subject, MADE, subject.made_ns)
        return super().begin(window, first)

    def claiming(self, subject: Subject) -> None:
        """Let a new cgroup of its name be the claim's at once."""
        subject.reported = self._names.claim(subject.path, subject.slot, subject.ident, subject.legacy_ids)

    def unclaiming(self, subject: Subject) -> None:
        """Let the name be no claim's."""
        self._names.forget(subject.path)

    def claiming_pods(self, pods: PodsRoot) -> None:
        """Let a new cgroup of its name be that of all pods at once."""
        self._pods.claim(pods)

    def unclaiming_pods(self, pods: PodsRoot) -> None:
        """Let the name be no claim's."""
        self._names.forget(pods.path)

    def verify(self, subject: Subject) -> None:
        """Compare the number of the claim's cgroup with the known one."""
        self._claims.verify(subject)

    def verify_pods(self, pods: PodsRoot) -> None:
        """Compare the number of the cgroup that all pods are in with the known one."""
        self._pods.verify(pods)

    def stirred(self) -> bool:
        """Say whether the kernel side has reported something since the last look: one load."""
        return self._names.count() != self._count

    def look(self) -> None:
        """Take note of what the kernel side reported since the last look: one load where that is nothing."""
        count = self._names.count()
        if count == self._count:
            return
        if self._observer.pods is not None:
            self._pods.track(self._observer.pods)
        for subject in self._observer.subjects.values():
            self._claims.track(subject)
        # Not before: where one of them meets an error the next look takes up the rest.
        self._count = count
