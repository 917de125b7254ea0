"""A container that is being made on a node that is followed: its runtime enters the new cgroup, and pins it only then.

Whatever does that is a foreign pod's task by its place until the container is watched. What it may do is bounded by the
container that appears, and by how long a runtime sits there unpinned; its name alone proves nothing, because any task
can call itself so. Source: docs/facts.md, "Normal on a healthy node".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolkit.model.claim_changes import versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence, Intruder, OwnerClass
from toolkit.model.runtimes import INIT_NAMES, INIT_NS, PINNED_NS, is_monitor, whole_of
from validators.credibility.trust import FOLLOW_GAP_NS
from validators.intruders import next_life
from validators.queries import timeline, view
from validators.queries.memo import memoised
from validators.wording import milliseconds

PATIENCE_NS = PINNED_NS + FOLLOW_GAP_NS
"""From its first time on the CPU until the container is watched: until the runtime has made it, and until the node is
read again. A node that is read more seldom leaves everything undecided."""


@memoised
def _lives(claims: ClaimSet) -> ClaimSet:
    """Return what each life of a container claimed: the cgroup of one that came and went is no claim's at the end."""
    lives = {one.claim.cgroup: one.claim for claim in claims.claims for one in versions(claims, claim)}
    return _whole(lives.values())


def _whole(claims: Iterable[Claim]) -> ClaimSet:
    """Return claims about containers as a whole: a runtime at work is in a scope before it is in the cgroup inside."""
    return ClaimSet(claims=tuple(replace(claim, cgroup=whole_of(claim.cgroup)) for claim in claims))


class Starts:
    """The containers that may be in the making in a window."""

    def __init__(self, claims: ClaimSet, evidence: Evidence) -> None:
        self._claims, self._evidence, self._making = claims, evidence, timeline.being_made(evidence)
        self._lives = _lives(claims)
        self._known = _whole((*self._lives.claims, *evidence.later))
        self._after = _whole(evidence.later)
        """Of containers that the reading after the window shows."""
        followed = evidence.following is not None
        self._strangers = [
            row for row in evidence.intruders if followed and row.owner is OwnerClass.FOREIGN_POD and not row.left
        ]
        self._spent_ns: dict[tuple[str, int], int] = {}
        """By container and CPU: time of all foreign pods' tasks together; one start has that much."""
        for row in self._strangers:
            place = (self._container(row.cgroup), row.cpu)
            self._spent_ns[place] = self._spent_ns.get(place, 0) + row.total_ns

    def _container(self, cgroup: str) -> str:
        """Return the cgroup of the container, which may have others below it; one that nothing knows is its own."""
        claim = view.claim_of_cgroup(self._known, cgroup)
        if claim is not None and claim.kind.carries_tasks:
            return claim.cgroup
        return next((one.cgroup for one in self._making if view.at_or_below(cgroup, one.cgroup)), cgroup)

    def excuse(self, intruder: Intruder, owner: Claim | None, is_owner: next_life.IsOwner) -> tuple[str, str]:
        """Return what an intruder's time is called where it breaks no promise, and why it is not known whether it does.

        Both are empty for a task that is neither a runtime at work nor of an owner's next life.

        :param owner: whose CPUs they are; ``None``: no owner's. :param is_owner: whether a claim owns a CPU, too.
        """
        if intruder.owner is not OwnerClass.FOREIGN_POD or intruder.left:
            return "", ""
        known = view.claim_of_cgroup(self._known, intruder.cgroup)
        if known is not None and known.kind.carries_tasks:
            if next_life.is_his(known, intruder, owner, is_owner, self._claims, self._evidence):
                return known.name, ""
            return self._start(intruder)
        name, doubt = self._start(intruder)
        if name or doubt:
            return name, doubt
        return "", next_life.doubt(intruder, owner, self._evidence) or self._between_readings(intruder, owner)

    def _between_readings(self, intruder: Intruder, owner: Claim | None) -> str:
        """Return why it is not known whose a task was: its container came and went between two readings of the node.

        It may have been a pause sandbox, which no runtime pins; of any other one its runtime came here before it was
        pinned. What a start needs, and no more, in a cgroup that is gone, within the longest time without a reading.
        """
        following, cgroup = self._evidence.following, intruder.cgroup
        place = (self._container(cgroup), intruder.cpu)
        if following is None or not intruder.gone or self._spent_ns.get(place, 0) > INIT_NS:
            return ""
        mine = [row for row in self._strangers if row.cgroup == cgroup and (cgroup or row.tid == intruder.tid)]
        if (
            max(row.first_at_ns + row.total_ns for row in mine) - min(row.first_at_ns for row in mine)
            > following.gap_ns
        ):
            return ""
        ran = f"{intruder.comm} ran {milliseconds(intruder.total_ns)} on CPU {intruder.cpu}"
        of_owner = owner is not None and next_life.container_of_pod(cgroup, owner)
        whose = f"the pod of `{owner.name}`" if owner is not None and of_owner else "a pod"
        return (
            f"{ran} in a container of {whose} that came and went between two readings of the node: it may have started"
        )

    def _start(self, intruder: Intruder) -> tuple[str, str]:
        """Return the same of a task that is, or may be, a runtime at work."""
        later = self._later(intruder)
        spent_ns = self._spent_ns.get((self._container(intruder.cgroup), intruder.cpu))
        if spent_ns is None or spent_ns > INIT_NS:
            return "", ""
        claim = view.claim_of_cgroup(self._lives, intruder.cgroup)
        if claim is not None and claim.kind.carries_tasks:
            return claim.name if self._begins(claim.name, intruder.first_at_ns) else "", ""
        if later is not None:
            return later.name, ""
        spent = f"{intruder.comm} ran {milliseconds(intruder.total_ns)} on CPU {intruder.cpu} in {intruder.cgroup}"
        # A monitor comes and goes with its container, which no reading knows that did not live for that long.
        if intruder.comm not in INIT_NAMES and not is_monitor(intruder.cgroup):
            # It has the name of its program already: the last that it had, not the one that it ran there under.
            if not self._after_last_reading(intruder.first_at_ns):
                return "", ""
            return "", f"{spent}, first after the node was last read: its container is not known"
        if any(
            view.at_or_below(intruder.cgroup, one.cgroup) and abs(one.from_ns - intruder.first_at_ns) <= PATIENCE_NS
            for one in self._making
        ):
            return f"{intruder.comm} of a container that is being made", ""
        return "", f"{spent}, where no container was seen to begin: it is not known whether one was being made"

    def _later(self, intruder: Intruder) -> Claim | None:
        """Return the claim of a container that began to be watched with the reading after the window, if that is his:
        as one that begins in the window, it must do so soon enough.
        """
        end_ns = self._evidence.duration_ns
        if end_ns - intruder.first_at_ns > PATIENCE_NS:
            return None
        found = view.claim_of_cgroup(self._after, intruder.cgroup)
        return found if found is not None and found.kind.carries_tasks else None

    def _after_last_reading(self, at_ns: int) -> bool:
        """Return whether the last reading of the node may lie before that; where it is not known when that was, no gap
        between readings is longer.
        """
        following = self._evidence.following
        if following is None:
            return False
        last_ns = following.last_reading_ns
        return at_ns >= (self._evidence.duration_ns - following.gap_ns if last_ns is None else last_ns)

    def _begins(self, name: str, since_ns: int) -> bool:
        """Return whether a claim began to be watched soon after."""
        changes = view.changes_of(name, self._evidence.transitions)
        begun = [t.end_at_ns for t in changes if t.what == "claim-added"]
        return any(0 <= at_ns - since_ns <= PATIENCE_NS for at_ns in begun)


@memoised
def starts_of(claims: ClaimSet, evidence: Evidence) -> Starts:
    """Return those of a window: every owner of CPUs asks."""
    return Starts(claims, evidence)
