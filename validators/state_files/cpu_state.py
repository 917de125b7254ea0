"""What a ``cpu_manager_state`` says, checked against itself and its node: the kubelet's own start-up checks and more.

Source: docs/facts.md K-kubelet-4, K-kubelet-5, docs/failures.md F2, F6, F21-F26, F41, F42; KEP-5526 "State File".
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.errors import InputError
from toolkit.model.claims import ClaimSet
from toolkit.model.cpuset import CpuSet
from toolkit.model.state_files import CpuEntry, CpuStateFile, StateReading
from toolkit.model.wording import cpus_text

POLICIES = ("none", "static")
Sets = list[tuple[CpuEntry, CpuSet]]


def problems(file: CpuStateFile, reading: StateReading, claims: ClaimSet) -> Iterator[str]:
    """Yield what is wrong with the file; nothing: a kubelet could start from it, and no CPU is lost or shared."""
    if file.problem:
        yield file.problem
        return
    if not file.checksum_ok:
        yield "the checksum is not that of the content"
    if file.version not in (1, 2, 3):
        yield f"version {file.version} is none that a kubelet writes"
    if file.policy not in POLICIES:
        yield f"policy {file.policy[:40]!r} is not {' or '.join(POLICIES)}"
    elif reading.cpu_policy is not None and reading.cpu_policy != file.policy:
        yield f"policy is {file.policy}, configured is {reading.cpu_policy}: the kubelet will not start"
    try:
        default = CpuSet.parse(file.default, "defaultCpuSet")
        containers, pods = sets(file.entries), sets(file.pods)
    except InputError as error:
        yield str(error)
        return
    if file.policy == "static" and not fresh(file):
        yield from _static(default, containers, pods, reading, claims)
    elif file.policy != "static" and (containers or pods):
        yield f"policy {file.policy} holds {len(containers) + len(pods)} assignments"


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


def _static(default: CpuSet, containers: Sets, pods: Sets, reading: StateReading, claims: ClaimSet) -> Iterator[str]:
    assigned = CpuSet()
    for _, cpus in (*containers, *pods):
        assigned = assigned | cpus
    if not default and assigned:
        yield f"the shared pool is empty, and {cpus_text(assigned)} assigned: the kubelet will not start again"
    yield from _reserved(default, assigned, claims)
    for entry, cpus in (*containers, *pods):
        if cpus & default:
            yield f"CPUs {cpus & default} of {name(entry)} are in the shared pool, too"
    yield from _double(containers, pods, reading)
    if reading.cpus_online:
        due = reading.cpus_online - claims.reserved_cpus if claims.strict_reservation else reading.cpus_online
        present = default | assigned
        if reading.union_known and due - present:
            yield f"CPUs {due - present} are in no set: leaked"
        if present - reading.cpus_online:
            yield f"CPUs {present - reading.cpus_online} are in a set but not online"


def _reserved(default: CpuSet, assigned: CpuSet, claims: ClaimSet) -> Iterator[str]:
    reserved = claims.reserved_cpus
    if claims.strict_reservation and reserved & default:
        yield f"reserved CPUs {reserved & default} are in the shared pool, under strict reservation"
    if not claims.strict_reservation and reserved - default - assigned:
        yield f"reserved CPUs {reserved - default} are not in the shared pool"
    if reserved & assigned:
        yield f"reserved CPUs {reserved & assigned} are assigned"


def _double(containers: Sets, pods: Sets, reading: StateReading) -> Iterator[str]:
    """Yield CPUs with two owners. Within a pod an init container's CPUs are used again; two that run may not share.

    In a pod with CPUs of its own, containers with the same set share the pod's pool.
    """
    mask_of: dict[str, int] = {}
    for entry, cpus in (*containers, *pods):
        # Of version 1 an id may stand alone, without its pod.
        owner = entry.pod_uid or name(entry)
        mask_of[owner] = mask_of.get(owner, 0) | cpus.mask
    owners = [(owner, CpuSet(mask)) for owner, mask in sorted(mask_of.items())]
    for index, (one, cpus) in enumerate(owners):
        for other, more in owners[index + 1 :]:
            if cpus & more:
                yield f"CPUs {cpus & more} belong to both {one} and {other}"
    whole = {entry.pod_uid: cpus for entry, cpus in pods}
    running = {(known.pod_uid, known.container) for known in reading.containers or () if known.running}
    for index, (one_entry, cpus) in enumerate(containers):
        pod = whole.get(one_entry.pod_uid)
        if pod is not None and not cpus <= pod:
            yield f"CPUs {cpus - pod} of {name(one_entry)} are not its pod's"
        for other_entry, more in containers[index + 1 :]:
            both = {(one_entry.pod_uid, one_entry.container), (other_entry.pod_uid, other_entry.container)}
            shared = pod is not None and cpus == more
            if one_entry.pod_uid == other_entry.pod_uid != "" and cpus & more and both <= running and not shared:
                yield f"CPUs {cpus & more} belong to {name(one_entry)} and {name(other_entry)}, which both run"


def unowned(file: CpuStateFile, reading: StateReading) -> set[str] | None:
    """Return the entries whose pod or container the node does not know; ``None``: that cannot be said."""
    if reading.containers is None or file.problem:
        return None
    uids = {known.pod_uid for known in reading.containers}
    known_names = {(known.pod_uid, known.container) for known in reading.containers}
    if any(not entry.pod_uid for entry in file.entries):
        # Version 1 knows containers by id, and the runtime did not name this one.
        return None
    gone = {name(entry) for entry in file.entries if (entry.pod_uid, entry.container) not in known_names}
    return gone | {name(entry) for entry in file.pods if entry.pod_uid not in uids}
