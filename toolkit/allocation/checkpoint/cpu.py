"""``cpu_manager_state``: written byte for byte, read and refused as a kubelet does.

V1 maps container ids to CPU sets, V2 pods and containers, V3 adds ``podEntries``; the gate PodLevelResourceManagers
decides whether a kubelet before v1.37 writes V3 or V2. Later ones write V4, which is V3 with its content once more as a
text, whatever the gate; what they read may be V4, V3 or V2. As of v1.38 that text may have ``allocations``, what a
container had first and after a resize, in place of entries.
Source: ``docs/facts.md`` K-kubelet-5; KEP-5526 "State File"; KEP-5554; kubernetes pull request 139102.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.allocation.checkpoint.format import (
    ROOT,
    CheckpointError,
    below,
    field_error,
    first_sound,
    fnv32a,
    go_json,
    go_map,
    is_wrapped,
    load_object,
    map_field,
    number_field,
    refuse_unknown,
    text_checksum,
    text_field,
    wrapped_json,
    wrapped_or_older,
)
from toolkit.allocation.cpu.state import CpuState
from toolkit.errors import InputError
from toolkit.kubernetes.go_text import GoError, parse_cpu_list, quote
from toolkit.model.cpuset import CpuSet

FILE = "cpu_manager_state"
_STRUCT = "CPUManagerCheckpoint"
_CONTENT = frozenset({"policyName", "defaultCpuSet", "entries", "podEntries"})
_FILE_FIELDS = _CONTENT | {"checksum", "data", "dataChecksum"}
_TEXT_FIELDS = _CONTENT | {"allocations"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCheckpoint:
    """A checkpoint as it stands in the file. CPU sets are texts: they may be wrong.

    :param version: 1 to 4. :param entries: by pod uid (V1: all under ``""``) and container name (V1: id).
    :param checksum_ok: the checksum in the file is the one of its content; a 0 stands for none (V1 and V2).
        Of V4 it is the one of its content as text.
    """

    version: int
    policy_name: str
    default: str
    entries: Mapping[str, Mapping[str, str]]
    pods: Mapping[str, CpuSet]
    checksum: int
    checksum_ok: bool


def write_cpu_checkpoint(state: CpuState, *, pod_level: bool, wrapped: bool = False) -> str:
    """Return the file's text. :param pod_level: V3 instead of V2. :param wrapped: V4, with or without pods."""
    entries = {u: {n: str(cs[n]) for n in sorted(cs)} for u, cs in sorted(state.entries.items())}
    pods = {uid: state.pods[uid] for uid in sorted(state.pods)} if pod_level else None
    document: dict[str, object] = {"policyName": state.policy_name, "defaultCpuSet": str(state.default)}
    if entries:
        document["entries"] = entries
    if pods:
        document["podEntries"] = {uid: {"cpuSet": str(cpus)} for uid, cpus in pods.items()}
    if wrapped:
        return wrapped_json(document, 0, document)
    document["checksum"] = fnv32a(cpu_hashed_text(state.policy_name, str(state.default), entries, pods))
    return go_json(document)


def cpu_hashed_text(
    policy: str, default: str, entries: Mapping[str, Mapping[str, str]] | None, pods: Mapping[str, CpuSet] | None
) -> str:
    """Return the text that is hashed. :param pods: ``None`` in V2."""
    written = go_map(entries, lambda containers: go_map(containers, str))
    parts = [f"PolicyName:(string){policy}", f"DefaultCPUSet:(string){default}"]
    parts.append(f"Entries:(map[string]map[string]string){written}")
    if pods is not None:
        parts.append(f"PodEntries:(state.PodCPUAssignments){go_map(pods, _pod_entry)}")
    return f"(*state.CPUManagerCheckpoint){{{' '.join(parts)} Checksum:(checksum.Checksum)0}}"


def _hashed_text_v1(policy: str, default: str, entries: Mapping[str, str]) -> str:
    fields = f"PolicyName:(string){policy} DefaultCPUSet:(string){default}"
    written = go_map(entries, str)
    return (
        f"(*state.CPUManagerCheckpoint){{{fields} Entries:(map[string]string){written} Checksum:(checksum.Checksum)0}}"
    )


def _pod_entry(cpus: CpuSet) -> str:
    elements = " ".join(f"{cpu}:{{}}" for cpu in cpus)
    return f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{elements}]}}}}"


def parse_cpu_checkpoint(text: str, version: int) -> CpuCheckpoint:
    """Read the text as one version.

    :raises CheckpointError: the text does not have this version's form; a wrong checksum is no error here.
    """
    if version == 4:
        return _parse_wrapped(text)
    struct = {1: f"{_STRUCT}V1", 2: f"{_STRUCT}V2", 3: _STRUCT}[version]
    data = load_object(text, struct)
    policy, default = text_field(data, "policyName", struct), text_field(data, "defaultCpuSet", struct)
    checksum = number_field(data, "checksum", struct, "checksum.Checksum")
    if version == 1:
        raw = map_field(data, "entries", struct, "map[string]string")
        ids = {key: _text(value, below(struct, "entries"), key) for key, value in raw.items()}
        computed = fnv32a(_hashed_text_v1(policy, default, ids))
        return _found(1, policy, default, {"": ids}, {}, checksum, computed)
    entries = _entries(data, struct)
    pods = _pods(data, struct) if version == 3 else None
    computed = fnv32a(cpu_hashed_text(policy, default, entries, pods))
    return _found(version, policy, default, entries, pods or {}, checksum, computed)


def _parse_wrapped(text: str) -> CpuCheckpoint:
    """Read V4: its fields must have the right types, and what counts of them is the text."""
    what = "failed to deserialize cpu manager checkpoint"
    try:
        outer = load_object(text, _STRUCT)
        for name in ("policyName", "defaultCpuSet"):
            text_field(outer, name, _STRUCT)
        _entries(outer, _STRUCT)
        _pods(outer, _STRUCT)
        number_field(outer, "checksum", _STRUCT, "checksum.Checksum")
        written = text_field(outer, "data", _STRUCT)
        checksum = number_field(outer, "dataChecksum", _STRUCT, "checksum.Checksum")
        what, struct = f"{what} data", f"{_STRUCT}Data"
        data = load_object(written, struct)
        policy, default = text_field(data, "policyName", struct), text_field(data, "defaultCpuSet", struct)
        entries, pods = _entries(data, struct), _pods(data, struct)
        entries = entries or _allocations(data, struct)
    except CheckpointError as error:
        raise CheckpointError(f"{what}: {error}") from None
    return _found(4, policy, default, entries, pods, checksum, text_checksum(written))


def _entries(data: Mapping[str, object], struct: str) -> dict[str, dict[str, str]]:
    entries = {}
    for uid, containers in map_field(data, "entries", struct, "map[string]map[string]string").items():
        if not isinstance(containers, dict):
            raise field_error(containers, below(struct, "entries"), uid, "map[string]string")
        entries[uid] = {name: _text(cpus, below(struct, "entries", uid), name) for name, cpus in containers.items()}
    return entries


def _allocations(data: Mapping[str, object], struct: str) -> dict[str, dict[str, str]]:
    """Return what containers have now: what a resize gave them, else what they had first."""
    wanted = "map[string]map[string]state.ContainerCPUs"
    entries: dict[str, dict[str, str]] = {}
    for uid, containers in map_field(data, "allocations", struct, wanted).items():
        place = below(struct, "allocations", uid)
        if not isinstance(containers, dict):
            raise field_error(containers, below(struct, "allocations"), uid, "map[string]state.ContainerCPUs")
        for name, sets in containers.items():
            if not isinstance(sets, dict):
                raise field_error(sets, place, name, "state.ContainerCPUs")
            one = below(place, name)
            resized = text_field(sets, "resized", one)
            entries.setdefault(uid, {})[name] = resized or text_field(sets, "original", one)
    return entries


def _found(
    version: int,
    policy: str,
    default: str,
    entries: Mapping[str, Mapping[str, str]],
    pods: Mapping[str, CpuSet],
    checksum: int,
    computed: int,
) -> CpuCheckpoint:
    accepted = checksum == computed or (checksum == 0 and version < 3)
    return CpuCheckpoint(
        version=version,
        policy_name=policy,
        default=default,
        entries=entries,
        pods=pods,
        checksum=checksum,
        checksum_ok=accepted,
    )


def _pods(data: Mapping[str, object], struct: str) -> dict[str, CpuSet]:
    pods = {}
    for uid, entry in map_field(data, "podEntries", struct, "state.PodCPUAssignments").items():
        if not isinstance(entry, dict):
            raise field_error(entry, below(struct, "podEntries"), uid, "state.PodEntry")
        try:
            pods[uid] = parse_cpu_list(text_field(entry, "cpuSet", below(struct, "podEntries", uid)))
        except GoError as error:
            raise CheckpointError(str(error)) from None
    return pods


def _text(value: object, struct: str, field: str) -> str:
    if not isinstance(value, str):
        raise field_error(value, struct, field, "string")
    return value


def restore_cpu_state(
    text: str | None,
    policy_name: str,
    *,
    pod_level: bool,
    wrapped: bool = False,
    containers: Mapping[str, tuple[str, str]] | None = None,
    root: str = ROOT,
) -> CpuState | None:
    """Restore what a starting kubelet finds; ``None`` if there is no file.

    :param wrapped: by a kubelet that writes V4; it knows V1 no more.
    :param containers: running containers, id -> (pod uid, container name), to migrate V1.
    :raises CheckpointError: with the kubelet's whole message.
    """
    if text is None:
        return None
    try:
        if wrapped:
            found = wrapped_or_older(parse_cpu_checkpoint, text, f"{_STRUCT}V2", (4, 3, 2))
        else:
            found = first_sound(parse_cpu_checkpoint, text, (3, 2, 1) if pod_level else (2, 1))
        return _restore(found, policy_name, containers or {}, pod_level=pod_level, wrapped=wrapped)
    except CheckpointError as error:
        remedy = f"please drain this node and delete the CPU manager checkpoint file {quote(f'{root}/{FILE}')}"
        message = f"could not restore state from checkpoint: {error}, {remedy} before restarting Kubelet"
        raise CheckpointError(message) from None


def _restore(
    found: CpuCheckpoint,
    policy_name: str,
    containers: Mapping[str, tuple[str, str]],
    *,
    pod_level: bool,
    wrapped: bool,
) -> CpuState:
    entries = found.entries
    if found.version == 1:
        migrated: dict[str, dict[str, str]] = {}
        for container_id, cpus in found.entries[""].items():
            if container_id not in containers:
                cause = f"containerID '{container_id}' not found in initial containers list"
                raise CheckpointError(f"failed to migrate checkpoint from v1 to v2: {cause}")
            uid, name = containers[container_id]
            migrated.setdefault(uid, {})[name] = cpus
        entries = migrated
    if found.policy_name != policy_name:
        names = (
            f"configured policy {quote(policy_name)} differs from state checkpoint policy {quote(found.policy_name)}"
        )
        raise CheckpointError(names)
    what = "CPU" if wrapped else "cpu"
    default = _cpus(found.default, f"could not parse default {what} set {quote(found.default)}")
    sets = {
        uid: {
            name: _cpus(cpus, f"could not parse cpuset {quote(cpus)} for container {quote(name)} in pod {quote(uid)}")
            for name, cpus in names.items()
        }
        for uid, names in entries.items()
    }
    pods = dict(found.pods) if pod_level or not wrapped else {}
    return CpuState(policy_name=policy_name, default=default, entries=sets, pods=pods)


def _cpus(text: str, problem: str) -> CpuSet:
    try:
        return parse_cpu_list(text)
    except GoError as error:
        raise CheckpointError(f"{problem}: {error}") from None


def read_cpu_checkpoint(text: str, where: str) -> CpuCheckpoint:
    """Read a checkpoint of any version from a node, for judging: a wrong checksum is reported, not refused.

    :raises InputError: it is no checkpoint of any version, or of one that is not known.
    """
    problem = ""
    readable: list[CpuCheckpoint] = []
    try:
        outer = load_object(text, _STRUCT)
        refuse_unknown(outer, _FILE_FIELDS, where, "version 1 to 4")
        wrapped = is_wrapped(outer)
    except CheckpointError:
        wrapped = False
    for version in (4,) if wrapped else (3, 2, 1):
        try:
            readable.append(parse_cpu_checkpoint(text, version))
        except CheckpointError as error:
            problem = problem or str(error)
    if not readable:
        raise InputError(where, problem, "a cpu_manager_state checkpoint")
    found = next((found for found in readable if found.checksum_ok), readable[0])
    if wrapped and found.checksum_ok:
        refuse_unknown(load_object(outer["data"], _STRUCT), _TEXT_FIELDS, f"{where}, data", "the fields of version 4")
    return found
