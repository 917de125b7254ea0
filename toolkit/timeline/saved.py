"""The timeline of a window, of what evidence says: claims and their changes, cgroups that came and went, readings.

Three parts. What is promised is what the ledger judged by: a life of a claim after the other, a change of its set after
the other. What was possible is that, and what changed hands while a change was under way. What is lent lies beyond
both: what a claim may have held although nothing had said so yet, and from when on nothing is known. Evidence of schema
1, in which a row's reason was the field that it stood in, is read as what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from toolkit.model.claim_changes import ClaimChange, versions
from toolkit.model.claims import Claim, ClaimSet
from toolkit.model.cpuset import EMPTY, CpuSet
from toolkit.model.evidence import Evidence, Transition
from toolkit.model.held import EVERY, FOREVER_NS, Held, Span, Why
from toolkit.timeline.held import Timeline

ADDED, REMOVED = "claim-added", "claim-removed"
MADE, GONE = "cgroup-made", "cgroup-gone"
PLANNED_CAUSES = frozenset({"toolkit", "kubelet", "podman", "docker", "systemd", "slurm"})
"""Causes of a mask change that moves the promise with it: ours, and what a followed source says, by its name (in runs
from before each had its own: ``kubelet`` for all). Any other writer's change is drift, judged as such."""


def lives(mine: Iterable[Transition]) -> list[Span]:
    """Return when a claim was watched: a container that restarts is the same claim in another life.

    :param mine: what happened to it.
    """
    events = sorted((one.start_at_ns, one.what == ADDED) for one in mine if one.what in (ADDED, REMOVED))
    since: int | None = None if events and events[0][1] else -FOREVER_NS
    found: list[Span] = []
    for at_ns, begins in events:
        if begins:
            since = at_ns if since is None else since
        elif since is not None:
            found.append((since, at_ns))
            since = None
    return found if since is None else [*found, (since, FOREVER_NS)]


def set_changes(mine: Iterable[Transition]) -> list[Transition]:
    """Return the changes of a claim's CPU set that move its promise; not its making and its end."""
    return [
        one
        for one in mine
        if one.cpus_before is not None and one.cpus_after is not None and one.cause in PLANNED_CAUSES
    ]


def promised(claims: ClaimSet, claim: Claim, mine: Sequence[Transition]) -> Timeline:
    """Return what a claim was promised through a window, life after life.

    :param claims: with what they promised before, where that is known. :param mine: what happened to the claim.
    """
    rows = list[Held]()
    for life in lives(mine):
        changes = _changes_of_life(life, mine)
        for begin_ns, end_ns, one in _versions(versions(claims, claim), life):
            sets = _by_changes(life, changes) if changes else ((*life, one.cpus, Why.PROMISED),)
            for since_ns, until_ns, cpus, why in sets:
                from_ns, to_ns = max(since_ns, begin_ns), min(until_ns, end_ns)
                if from_ns < to_ns:
                    rows.append(_row(one, None if one.cpus is None else cpus, why, from_ns, to_ns))
    return Timeline(tuple(rows))


def _row(claim: Claim, cpus: CpuSet | None, why: Why, from_ns: int, to_ns: int) -> Held:
    return Held(
        claim=claim.name,
        cpus=cpus,
        isolation=claim.isolation,
        mems=claim.mems,
        quota_us=claim.quota_us,
        period_us=claim.period_us,
        weight=claim.weight,
        why=why,
        from_ns=from_ns,
        to_ns=to_ns,
    )


def _versions(every: Sequence[ClaimChange], life: Span) -> Iterator[tuple[int, int, Claim]]:
    """Yield what was promised in one life; that of a new life is written down just after it began, as every change."""
    born, died = life
    here = [one for one in every if born <= one.at_ns < died]
    if not here:
        here = [one for one in every if one.at_ns < born][-1:] or list(every[:1])
    begins = [born, *(one.at_ns for one in here[1:])]
    for one, begin, end in zip(here, begins, [*begins[1:], died], strict=True):
        yield begin, end, one.claim


def _changes_of_life(life: Span, mine: Sequence[Transition]) -> list[Transition]:
    """Return the changes of the set within one life.

    Where a life has other CPUs than the one before, its begin is written down as a change of the set, too.
    """
    born, died = life
    changes = sorted(
        (one for one in set_changes(mine) if born <= one.start_at_ns < died),
        key=lambda one: (one.start_at_ns, one.end_at_ns),
    )
    first = next((one.cpus_after for one in mine if one.what == ADDED and one.start_at_ns == born), None)
    if changes and first is not None and changes[0].cpus_before != first == changes[0].cpus_after:
        return changes[1:]
    return changes


def _by_changes(life: Span, changes: list[Transition]) -> Iterator[tuple[int, int, CpuSet, Why]]:
    since_ns = life[0]
    for one in changes:
        before, after = one.cpus_before or CpuSet(), one.cpus_after or CpuSet()
        yield since_ns, one.start_at_ns, before, Why.PROMISED
        yield one.start_at_ns, one.end_at_ns, before & after, Why.CHANGING
        since_ns = one.end_at_ns
    yield since_ns, life[1], changes[-1].cpus_after or CpuSet(), Why.PROMISED


def possible(claim: Claim, mine: Iterable[Transition]) -> Timeline | None:
    """Return when a claim may have had which CPUs: from when a change that gives them began to when one that takes them
    was complete. What is promised is certain, and within that.

    ``None``: the claim has no CPU set, or its changes do not follow from one another.

    :param mine: what happened to it.
    """
    if claim.cpus is None:
        return None
    changes = sorted(
        (one for one in mine if one.cause in PLANNED_CAUSES and (one.cpus_before, one.cpus_after) != (None, None)),
        key=lambda one: (one.start_at_ns, one.end_at_ns),
    )
    held = changes[0].cpus_before if changes else claim.cpus
    since = dict.fromkeys(held or (), -FOREVER_NS)
    found: dict[Span, set[int]] = {}
    begun = False
    for one in changes:
        if begun and one.cpus_before != held == one.cpus_after:
            continue  # a life on other CPUs than the one before: its begin is written down as a change of the set, too
        if one.cpus_before != held:
            return None
        begun = one.what == ADDED
        had, has = held or EMPTY, one.cpus_after or EMPTY
        for cpu in had - has:
            found.setdefault((since.pop(cpu), one.end_at_ns), set()).add(cpu)
        since |= dict.fromkeys(has - had, one.start_at_ns)
        held = one.cpus_after
    for cpu in held or ():
        found.setdefault((since[cpu], FOREVER_NS), set()).add(cpu)
    rows = (
        Held(claim=claim.name, cpus=CpuSet.of(cpus), from_ns=begin, to_ns=end, certain=False)
        for (begin, end), cpus in sorted(found.items())
    )
    return Timeline(tuple(rows))


def lent(evidence: Evidence) -> Timeline:
    """Return what claims may have held beyond what is promised, and from when on nothing is known of any.

    Nothing where no source is followed: what a claims file or a plan says is all that there is.
    """
    if evidence.following is None:
        return Timeline()
    granted = (row for row in evidence.held if row.why is Why.GRANTED)
    return Timeline((*granted, *_made_anew(evidence), *_unread(evidence)))


def _unread(evidence: Evidence) -> Iterator[Held]:
    """From when the source was read last on: what was promised later is not known."""
    known_ns = None if evidence.following is None else evidence.following.known_until_ns
    if known_ns is not None:
        yield Held(claim=EVERY, why=Why.UNREAD, from_ns=known_ns, certain=False)


def _made_anew(evidence: Evidence) -> Iterator[Held]:
    """Yield what cgroups held that were made again under their name, before their source spoke of them.

    A unit that stops and starts has one name for both lives. The kernel side takes the new cgroup for the claim's at
    once; where the source says next that the claim has ended, what bound until then was the old life's promise. What
    binds is the next one, of this window or just after it. Until there is one the claim has no CPUs, and what ran is
    judged by the old.
    """
    if not any(one.what == MADE for one in evidence.transitions):
        return
    events: dict[str, list[Transition]] = {}
    for one in sorted(evidence.transitions, key=lambda one: one.start_at_ns):
        events.setdefault(one.claim, []).append(one)
    for claim, rows in events.items():
        gone_ns = made_ns = None
        for one in rows:
            if one.what == GONE:
                gone_ns, made_ns = one.start_at_ns, None
            elif one.what == MADE and gone_ns is not None:
                made_ns = one.start_at_ns
            elif one.what == REMOVED and made_ns is not None:
                cpus = _promised_next(claim, one.start_at_ns, evidence)
                why, to_ns = Why.MADE_ANEW, one.end_at_ns + 1
                yield Held(claim=claim, cpus=cpus, why=why, from_ns=made_ns, to_ns=to_ns, certain=False)
                gone_ns = made_ns = None


def _promised_next(name: str, at_ns: int, evidence: Evidence) -> CpuSet:
    """Return the CPUs of a claim's next life; none where nothing has been said of it yet."""
    changes = sorted((one for one in evidence.changed if one.at_ns >= at_ns), key=lambda one: one.at_ns)
    later = (*(one.claim for one in changes), *evidence.later)
    return next((one.cpus for one in later if one.name == name and one.cpus is not None), CpuSet())


_SCHEMA_1 = {
    "giving_back": Why.OWED,
    "granted": Why.GRANTED,
    "making": Why.BEING_MADE,
    "forgotten": Why.FORGOTTEN,
}
"""Fields of evidence of schema 1, and the reason of a row that stood in each."""
_RENEWED_APART = 2
"""The last schema in which what was promised after a window was a field of its own."""
_NAMES_1 = {"since_ns": "from_ns", "limit_ns": "due_ns", "count": "asks"}


def as_of_today(data: dict[str, Any], schema: int) -> dict[str, Any]:
    """Return evidence of an earlier schema, as it was read from its file, as of today. Its values are checked later."""
    now = _of_schema_1(data) if schema == 1 else data
    return now if schema > _RENEWED_APART else _of_schema_2(now)


def _of_schema_2(data: dict[str, Any]) -> dict[str, Any]:
    """What was promised anew after the window stood in a field of its own."""
    rest = {key: value for key, value in data.items() if key != "renewed"}
    changes, renewed = data.get("claim_changes", []), data.get("renewed", [])
    if not (isinstance(changes, list) and isinstance(renewed, list)):
        return data  # refused as what it is
    return {**rest, "claim_changes": [*changes, *renewed]} if changes or renewed else rest


def _of_schema_1(data: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in data.items() if key not in _SCHEMA_1}
    lists = {key: data[key] for key in _SCHEMA_1 if isinstance(data.get(key), list)}
    rows = [_row_of_schema_1(row, _SCHEMA_1[key]) for key, found in lists.items() for row in found]
    # What was no list, or no row, is refused as what it is.
    odd = {key: data[key] for key in _SCHEMA_1 if key in data and key not in lists}
    return {**rest, "held": rows, **odd}


def _row_of_schema_1(row: object, why: Why) -> object:
    if not isinstance(row, dict):
        return row
    found = {_NAMES_1.get(key, key): value for key, value in row.items() if key != "until_ns"}
    until_ns = row.get("until_ns")
    if until_ns is not None:
        # The last moment of what was granted, or was being made; when what was owed or forgotten was over.
        last = why in (Why.GRANTED, Why.BEING_MADE) and isinstance(until_ns, int)
        found["to_ns"] = until_ns + last
    if why is Why.OWED and found.get("due_ns") == found.get("from_ns"):
        why = Why.TAKEN
    if why is Why.BEING_MADE:
        found["claim"] = EVERY
    return {"certain": why is not Why.GRANTED, **found, "why": why.value}
