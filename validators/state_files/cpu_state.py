"""What a ``cpu_manager_state`` says, checked against itself and its node: the kubelet's own start-up checks and more.

Source: docs/facts.md K-kubelet-4, K-kubelet-5, docs/failures.md F2, F6, F21-F26, F41, F42; KEP-5526 "State File".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet, cpus_do, cpus_text
from toolkit.model.state_files import CpuEntry, CpuStateFile, StateReading
from validators.state_files.problem import Problem, of_any_file, part, whole

POLICIES = ("none", "static")
Sets = list[tuple[CpuEntry, CpuSet]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What a kubelet was set to do, as far as a file can be held against it.

    :param policy: ``None``: not known. :param union_known: whether it is known which CPUs the file must name.
    """

    policy: str | None = None
    reserved: CpuSet = field(default_factory=CpuSet)
    strict: bool = False
    union_known: bool = False


def configured(reading: StateReading, claims: ClaimSet) -> Configured:
    """Return the configuration of a reading; where that says nothing of reserved CPUs, those of the claims."""
    own = reading.reserved_cpus
    return Configured(
        policy=reading.cpu_policy,
        reserved=claims.reserved_cpus if own is None else own,
        strict=claims.strict_reservation if own is None else reading.strict_reservation,
        union_known=reading.union_known,
    )


def by_each(readings: Sequence[StateReading], claims: ClaimSet) -> Callable[[StateReading], list[Problem]]:
    """Return how to ask what is wrong with a file by every configuration of these readings.

    What sets a kubelet up anew stops it, removes the file and starts it again: between these steps the file is wrong by
    one of them, and nothing is broken. Where one is not known, no configuration finds anything wrong.
    """
    known = all(reading.reserved_cpus is not None and reading.cpu_policy is not None for reading in readings)
    setups = {configured(reading, claims) for reading in readings} if known else {Configured()}

    def ask(reading: StateReading) -> list[Problem]:
        found = [list(problems(reading, setup)) for setup in setups]
        marks = frozenset.intersection(*(frozenset[str]().union(*(one.marks for one in each)) for each in found))
        return [one for each in found for one in each if one.marks & marks]

    return ask


def problems(reading: StateReading, setup: Configured) -> Iterator[Problem]:
    """Yield what is wrong with the file; nothing: a kubelet could start from it, and no CPU is lost or shared."""
    file = reading.cpu
    if file is None or file.unknown:
        return
    yield from of_any_file(file, POLICIES, setup.policy)
    if file.problem:
        return
    try:
        default = CpuSet.parse(file.default, "defaultCpuSet")
        containers, pods = sets(file.entries), sets(file.pods)
    except InputError as error:
        yield whole(str(error))
        return
    if file.policy == "static" and not fresh(file):
        yield from _static(default, containers, pods, reading, setup)
    elif file.policy != "static" and (containers or pods):
        yield whole(f"policy {file.policy} holds {len(containers) + len(pods)} assignments", "none that assigns")


def sets(entries: tuple[CpuEntry, ...]) -> Sets:
    """Read the CPU lists of entries.

    :raises InputError: one of them is no list.
    """
    return [(entry, CpuSet.parse(entry.cpus, f"CPUs of {name(entry)}")) for entry in entries]


def name(entry: CpuEntry) -> str:
    """Name an entry for people."""
    return f"{entry.pod_uid}/{entry.container}".strip("/")


def fresh(file: CpuStateFile) -> bool:
    """Return whether the file is that of a manager that has not started yet."""
    return file.policy == "static" and not file.default and not file.entries and not file.pods


def _static(
    default: CpuSet, containers: Sets, pods: Sets, reading: StateReading, setup: Configured
) -> Iterator[Problem]:
    assigned = CpuSet.union(cpus for _, cpus in (*containers, *pods))
    if not default and assigned:
        text = f"the shared pool is empty, and {cpus_text(assigned)} assigned: the kubelet will not start again"
        yield part(text, "the pool", ["is empty"])
    yield from _reserved(default, assigned, setup)
    for entry, cpus in (*containers, *pods):
        of = f" of {name(entry)}"
        if cpus & default:
            yield part(f"{cpus_do(cpus & default, 'is', 'are', of)} in the shared pool, too", "pool", cpus & default)
    yield from _double(containers, pods, reading)
    if reading.cpus_online:
        due = reading.cpus_online - setup.reserved if setup.strict else reading.cpus_online
        present = default | assigned
        if setup.union_known and due - present:
            yield part(f"{cpus_do(due - present, 'is', 'are')} in no set: leaked", "no set", due - present)
        if present - reading.cpus_online:
            absent = present - reading.cpus_online
            yield part(f"{cpus_do(absent, 'is', 'are')} in a set but not online", "offline", absent)


def _reserved(default: CpuSet, assigned: CpuSet, setup: Configured) -> Iterator[Problem]:
    reserved = setup.reserved
    if setup.strict and reserved & default:
        text = f"reserved {cpus_do(reserved & default, 'is', 'are')} in the shared pool, under strict reservation"
        yield part(text, "reserved, pool", reserved & default)
    lost = reserved - default - assigned
    if not setup.strict and lost:
        text = f"reserved {cpus_do(reserved - default, 'is', 'are')} not in the shared pool"
        yield part(text, "reserved, no pool", lost)
    if both := reserved & assigned:
        yield part(f"reserved {cpus_do(both, 'is', 'are')} assigned", "reserved, assigned", both)


def _double(containers: Sets, pods: Sets, reading: StateReading) -> Iterator[Problem]:
    """Yield CPUs with two owners. Within a pod an init container's CPUs are used again; two that run may not share.

    In a pod with CPUs of its own, containers with the same set share the pod's pool.
    """
    of_owner: dict[str, CpuSet] = {}
    of_pod: dict[str, Sets] = {}
    for entry, cpus in (*containers, *pods):
        # Of version 1 an id may stand alone, without its pod.
        owner = entry.pod_uid or name(entry)
        of_owner[owner] = of_owner.get(owner, CpuSet()) | cpus
    for entry, cpus in containers:
        of_pod.setdefault(entry.pod_uid, []).append((entry, cpus))
    owners = sorted(of_owner.items())
    for (one, cpus), (other, more) in combinations(owners, 2) if _overlap(cpus for _, cpus in owners) else ():
        if both := cpus & more:
            yield part(f"{cpus_do(both, 'belongs', 'belong')} to both {one} and {other}", f"{one}, {other}", both)
    whole_of = {entry.pod_uid: cpus for entry, cpus in pods}
    running = {(known.pod_uid, known.container) for known in reading.containers or () if known.running}
    for uid, mine in of_pod.items():
        pod = whole_of.get(uid)
        for entry, cpus in mine if pod is not None else ():
            beyond = cpus - (pod or cpus)
            if beyond:
                text = f"{cpus_do(beyond, 'is', 'are', f' of {name(entry)}')} not its pod's"
                yield part(text, f"beyond {name(entry)}", beyond)
        active = [(e, cpus) for e, cpus in mine if uid and (uid, e.container) in running]
        for (first, cpus), (second, more) in combinations(active, 2):
            both = cpus & more
            if both and not (pod is not None and cpus == more):
                names = f"{name(first)} and {name(second)}"
                yield part(f"{cpus_do(both, 'belongs', 'belong')} to {names}, which both run", names, both)


def _overlap(sets_: Iterable[CpuSet]) -> bool:
    """Return whether two of the sets share a CPU; a node has hundreds of owners, and more pairs of them."""
    every = tuple(sets_)
    return sum(map(len, every)) != len(CpuSet.union(every))


def leaks(reading: StateReading) -> list[Problem]:
    """Return the entries that the node knows no owner of, as far as that can be said."""
    return [part(f"{one} has CPUs but no container", "unowned", [one]) for one in sorted(unowned(reading) or ())]


def unowned(reading: StateReading) -> set[str] | None:
    """Return the entries whose pod or container the node does not know; ``None``: that cannot be said."""
    file = reading.cpu
    if reading.containers is None or file is None or file.problem:
        return None
    uids = {known.pod_uid for known in reading.containers}
    known_names = {(known.pod_uid, known.container) for known in reading.containers}
    if any(not entry.pod_uid for entry in file.entries):
        # Version 1 knows containers by id, and the runtime did not name this one.
        return None
    gone = {name(entry) for entry in file.entries if (entry.pod_uid, entry.container) not in known_names}
    return gone | {name(entry) for entry in file.pods if entry.pod_uid not in uids}
