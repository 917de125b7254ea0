"""What the parts of one observation must say alike, because one reading made them; if they do not, something edited it.

Not a matter of what was missed: these numbers are written from the same counters at the same moment, or one is the part
of the other by construction. So they are equal to the nanosecond, however busy the host was, and need no tolerance.

- The ledger's sum of a claim (``bpf_usage_ns``) is the sum of its rows and of those of the claims inside it, less what
  it used between a cgroup's last reading and its end (``unread_ns``). Of a claim that began while the window was open,
  or began anew in it, the rows may have more.
- Time in a transition ends with a transition: a change of the claim, its beginning or end. None is after the last of
  them. (It may be long before it began: an interval is judged when it ends.) Or a task was joining, from the first of
  its attaches to the last. Where reports of moves were lost, or a CPU came or went, that is not known.
- A blind spot is listed where it is named. There is one canary of each kind.
- Counters of a level are those of the claim's own cgroup, or of the one so many levels above it.
- Control files were read in the window, at its two ends.

Source: probes/switches/decoder.py (``usage_ns``), probes/cgroups/decoder.py (``_by_ledger``),
probes/switches/offences.h.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from toolkit.model.claim_changes import in_force, versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.evidence import Evidence
from toolkit.model.held import OWING, Why
from validators.credibility.bounds import CLOCK_SLACK_NS, longest_ns
from validators.queries import timeline, view
from validators.wording import milliseconds

IDENTITY = "v2"
PATIENCE_NS = 100_000_000
"""For so long at most a task that has joined the v2 cgroup is waited for: then it is a member without more."""
FILES_NS = 1_000_000_000
"""How long before or after the end of a window its files may have been read; a jammed host's own time comes to it."""


def misfits(claims: ClaimSet, evidence: Evidence) -> tuple[str, ...]:
    """Return what cannot be of one observation, in the order of the claims.

    :param claims: as they were when the window opened.
    """
    if evidence.picture is not None:
        return ()  # One reading of files: nothing was counted.
    claims = in_force(claims, evidence.changed)
    found = (text for claim in claims.claims for text in _of_claim(claim, claims, evidence))
    return (*found, *_files(evidence), *_spots(evidence), *_canaries(evidence))


def _of_claim(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Iterator[str]:
    yield from _sum(claim, claims, evidence)
    yield from _transition(claim, evidence)
    yield from _levels(claim, claims, evidence)


def _sum(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Iterator[str]:
    own = view.level(view.by_claim(evidence.bandwidth).get(claim.name, []), 0)
    if own is None or own.bpf_usage_ns is None:
        return
    known = {one.name for one in claims.claims}
    ran: Counter[str] = Counter()
    for row in evidence.cpu_use:
        ran[row.claim] += row.run_ns
    inside = view.nested(claims).get(claim.name, ())
    rows_ns = ran[claim.name] + sum(ran[name] for name in inside)
    sum_ns = own.bpf_usage_ns + own.unread_ns
    # What is in no claim's list may have been inside it: claims that came and went; and, of the root, our controls.
    more_ns = sum(ns for name, ns in ran.items() if name not in known)
    more_ns += sum(one.run_ns for one in evidence.canaries) if claim.cgroup.strip("/") == "" else 0
    steady = own.lives == 1 and not any(_changed(name, evidence) for name in (claim.name, *inside))
    if sum_ns > rows_ns + more_ns or (steady and not more_ns and sum_ns != rows_ns):
        rows, whole = milliseconds(rows_ns), milliseconds(sum_ns)
        yield f"{claim.name}: its rows of the ledger come to {rows}, the ledger's own sum is {whole}"


def _changed(name: str, evidence: Evidence) -> bool:
    anew = any(one.claim.name == name for one in evidence.claim_changes)
    return anew or bool(view.changes_of(name, evidence.transitions))


def _lent(claim: Claim, evidence: Evidence) -> Iterator[int]:
    """Yield until when time was a transition's without a change of the window: CPUs had to be given back, or the set
    grew when the window had just ended. What it grew by within the window is a change of it.
    """
    for row in evidence.held:
        if row.claim == claim.name and row.why in OWING:
            yield min(row.to_ns, evidence.duration_ns)
        elif row.claim == claim.name and row.why is Why.GRANTED and row.to_ns > evidence.duration_ns:
            yield row.to_ns - 1


def _transition(claim: Claim, evidence: Evidence) -> Iterator[str]:
    rows = [row for row in view.by_claim(evidence.cpu_use).get(claim.name, []) if row.transition_ns > 0]
    if not rows or evidence.hotplug or evidence.coverage.cgroup_moves_dropped:
        return
    making, forgotten = timeline.being_made(evidence), timeline.forgotten(evidence)
    if any(one.cgroup == claim.cgroup for one in making) or any(one.claim == claim.name for one in forgotten):
        return
    ends = [change.end_at_ns for change in view.changes_of(claim.name, evidence.transitions)]
    ends += [one.at_ns for one in evidence.claim_changes if one.claim.name == claim.name]
    ends += _lent(claim, evidence)
    joined_ns = _joined_ns(claim, evidence)
    for row in rows:
        spent = f"{claim.name}: {milliseconds(row.transition_ns)} on CPU {row.cpu} in a transition"
        if not ends and joined_ns is None:
            yield f"{spent}, and it never changed, nor did a task join it"
        elif row.transition_ns > max((0, *ends)) + (joined_ns or 0) + CLOCK_SLACK_NS:
            took = milliseconds(max((0, *ends)) + (joined_ns or 0))
            yield f"{spent}: its changes and joinings were over after {took}"


def _joined_ns(claim: Claim, evidence: Evidence) -> int | None:
    """Return how long tasks were between the attaches of their joinings, at most; ``None``: nothing was moved.

    One whose other attach was in the window before, or is in the next one, has one here.
    """
    moves: dict[int, list[int]] = {}
    first: dict[int, bool] = {}
    for one in evidence.cgroup_moves:
        if claim.name in (one.from_claim, one.to_claim):
            moves.setdefault(one.tid, []).append(one.at_ns)
            first.setdefault(one.tid, one.hierarchy == IDENTITY)
    if not moves:
        return None
    spans = (
        max(times) - min(times) if len(times) > 1 else PATIENCE_NS if first[tid] else min(times)
        for tid, times in moves.items()
    )
    return sum(map(int, spans))


def _levels(claim: Claim, claims: ClaimSet, evidence: Evidence) -> Iterator[str]:
    cgroups = {claim.cgroup, *(one.claim.cgroup for one in versions(claims, claim))}
    if any(change.what != "mask-change" for change in view.changes_of(claim.name, evidence.transitions)):
        return  # It may have begun anew, in another cgroup.
    for row in view.by_claim(evidence.bandwidth).get(claim.name, []):
        above = {_above(cgroup, row.level) for cgroup in cgroups}
        if row.cgroup not in above:
            yield f"{claim.name}: the counters of level {row.level} are those of {row.cgroup}"


def _above(cgroup: str, level: int) -> str:
    parts = cgroup.strip("/").split("/")
    return "/" + "/".join(parts[: max(0, len(parts) - level)])


def _files(evidence: Evidence) -> Iterator[str]:
    start_ns, end_ns = evidence.start_monotonic_ns, evidence.start_monotonic_ns + longest_ns(evidence)
    slack_ns = FILES_NS + max(0, evidence.coverage.witness_skew_ns)
    late = [one for one in evidence.files_before if one.at_ns > start_ns + slack_ns]
    early = [one for one in evidence.files_after if not start_ns <= one.at_ns + slack_ns <= end_ns + 2 * slack_ns]
    if late or early:
        one = (late or early)[0]
        yield f"the files of {one.cgroup} were read at {one.at_ns} ns, the window is {start_ns} to {end_ns:.0f} ns"


def _spots(evidence: Evidence) -> Iterator[str]:
    coverage = evidence.coverage
    known = {spot.text for spot in coverage.blindness}
    if known != set(coverage.blind_spots) and coverage.blindness:
        yield "blind spots are listed that are not named, or named and not listed"
    elif coverage.blind_spots and not coverage.blindness:
        yield "blind spots are named, and nothing says what they hide"


def _canaries(evidence: Evidence) -> Iterator[str]:
    if max(Counter(one.positive for one in evidence.canaries).values(), default=0) > 1:
        yield "there are two controls of one kind"
