"""Rule ``layers-agree`` on a node that is followed: CPUs that a claim has and must give back, or that it lacks.

Source: docs/facts.md K-kubelet-1, "Normal on a healthy node".
"""

from __future__ import annotations

from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.held import Held
from toolkit.model.layers import Layer
from toolkit.model.verdict import Measure, Outcome, rank
from validators.intruders.given_early import given_early
from validators.layers.claim_layers import ClaimLayers, Stretch
from validators.queries import file_history, view
from validators.queries.life import Life
from validators.wording import moment, seconds

GRACE_NS = 30 * view.NANOSECONDS
"""``terminationGracePeriodSeconds`` unless a pod says otherwise: a kubelet that starts, and refuses a pod which runs,
ends it in that time, with its allocation in the file."""
Finding = tuple[Outcome, str]


def forgotten(life: Life, limit_ns: int, measures: dict[str, Measure]) -> list[Finding]:
    """An owner without an entry: it may have what the pool has by the file, and is no pool that grows late.

    Rows that are due at one moment are one debt that went on as another (it asked for more, or had other CPUs): found
    once, by the worst of them, and of these by the last.
    """
    debts: dict[int, list[Held]] = {}
    for one in life.forgotten:
        debts.setdefault(one.from_ns + limit_ns if one.due_ns is None else one.due_ns, []).append(one)
    found: list[Finding] = []
    for due_ns, debt in debts.items():
        judged = [(_lacks(one, due_ns, life.end_ns), one) for one in sorted(debt, key=lambda one: one.to_ns)]
        outcome, one = min(reversed(judged), key=lambda known: rank(known[0]))
        lasted_ns, asks = min(one.to_ns, life.end_ns) - due_ns + limit_ns, one.asks or 0
        measures["requested_cpus_count"], measures["forgotten_ms"] = asks, lasted_ns / 1e6
        text = (
            f"{Layer.MODEL} and {Layer.CHECKPOINT} differ since {moment(due_ns - limit_ns)}: {asks} CPUs of its own "
            f"requested, none assigned; it has CPUs {one.cpus}, for {seconds(lasted_ns)} (bound {seconds(limit_ns)})"
        )
        found.append(
            (outcome, text if outcome is not Outcome.UNDECIDED else f"{text}, or its pod has ended for the kubelet")
        )
    return found


def _lacks(one: Held, due_ns: int, end_ns: int) -> Outcome:
    late_ns = min(one.to_ns, end_ns) - due_ns
    if late_ns <= 0:
        return Outcome.PASSED
    return Outcome.FAILED if one.certain and late_ns > GRACE_NS else Outcome.UNDECIDED


def overlap(life: Life, layers: ClaimLayers, claims: ClaimSet, measures: dict[str, Measure]) -> list[Finding]:
    """CPUs of others that it still had: measured, and failed beyond the bound.

    When the runtime was asked again is when that was known at the latest: a node that is read seldom may have done it
    long before, and the cgroup shows when.
    """
    found: list[Finding] = []
    longest_ns = 0
    for one in life.owed:
        until_ns, due_ns = min(one.to_ns, life.end_ns), one.from_ns if one.due_ns is None else one.due_ns
        if until_ns - one.from_ns >= longest_ns:
            longest_ns = until_ns - one.from_ns
            measures["overlap_cpus"], measures["overlap_ms"] = str(one.cpus), longest_ns / 1e6
        outcome = _at_the_bound(one, due_ns, layers.cgroup, life) if until_ns > due_ns else Outcome.PASSED
        if outcome is not Outcome.PASSED:
            text = (
                f"{Layer.CHECKPOINT} and {Layer.RUNTIME} differ since {moment(one.from_ns)}: it has CPUs {one.cpus}, "
                f"which were promised away, for {seconds(until_ns - one.from_ns)} "
                f"(bound {seconds(due_ns - one.from_ns)})"
            )
            if early := given_early(one, claims, life.end_ns):
                text += f"; {early}"
            if outcome is Outcome.UNDECIDED:
                text += f", or less: {Layer.CGROUP} was not read at the bound"
            found.append((outcome, text))
    return found


def _at_the_bound(one: Held, due_ns: int, cgroup: list[Stretch], life: Life) -> Outcome:
    """Judge by whether the cgroup had those CPUs when they had to be given back (or when the window opened)."""
    at_ns, cpus = max(due_ns, 0), one.cpus or CpuSet()
    had = [run for run in cgroup if run.first_ns <= at_ns]
    if not had:
        return Outcome.FAILED  # nothing knows better than the runtime
    if not had[-1].cpus & cpus:
        return Outcome.PASSED
    without = (run.first_ns for run in cgroup if run.first_ns > at_ns and not run.cpus & cpus)
    given_ns = next(without, life.end_ns)
    # Some time before it was read.
    return Outcome.FAILED if given_ns - file_history.unread_ns(life.evidence) > at_ns else Outcome.UNDECIDED
