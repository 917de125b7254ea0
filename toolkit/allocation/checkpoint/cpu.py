"""``cpu_manager_state``: written byte for byte, read and refused as a kubelet does.

V1 maps container ids to CPU sets, V2 pods and containers, V3 adds ``podEntries``; the gate PodLevelResourceManagers
decides whether a kubelet writes V3 or V2. Source: ``docs/facts.md`` K-kubelet-5; KEP-5526 "State File".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.allocation.checkpoint.format import (
    CORRUPT,
    ROOT,
    CheckpointError,
    below,
    field_error,
    fnv32a,
    go_json,
    go_map,
    load_object,
    map_field,
    number_field,
    text_field,
)
from toolkit.allocation.cpu.state import CpuState
from toolkit.errors import InputError
from toolkit.kubernetes.go_text import GoError, parse_cpu_list, quote
from toolkit.model.cpuset import CpuSet

FILE = "cpu_manager_state"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCheckpoint:
    """A checkpoint as it stands in the file. CPU sets are texts: they may be wrong.

    :param version: 1, 2 or 3. :param entries: by pod uid (V1: all under ``""``) and container name (V1: id).
    :param checksum_ok: the checksum in the file is the one of its content; a 0 stands for none (V1 and V2).
    """

    version: int
    policy_name: str
    default: str
    entries: Mapping[str, Mapping[str, str]]
    pods: Mapping[str, CpuSet]
    checksum: int
    checksum_ok: bool


def write_cpu_checkpoint(state: CpuState, *, pod_level: bool) -> str:
    """Return the file's text. :param pod_level: V3 instead of V2."""
    entries = {u: {n: str(cs[n]) for n in sorted(cs)} for u, cs in sorted(state.entries.items())}
    pods = {uid: state.pods[uid] for uid in sorted(state.pods)} if pod_level else None
    document: dict[str, object] = {"policyName": state.policy_name, "defaultCpuSet": str(state.default)}
    if entries:
        document["entries"] = entries
    if pods:
        document["podEntries"] = {uid: {"cpuSet": str(cpus)} for uid, cpus in pods.items()}
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
    struct = {1: "CPUManagerCheckpointV1", 2: "CPUManagerCheckpointV2", 3: "CPUManagerCheckpoint"}[version]
    data = load_object(text, struct)
    policy, default = text_field(data, "policyName", struct), text_field(data, "defaultCpuSet", struct)
    raw = map_field(data, "entries", struct, "map[string]string" if version == 1 else "map[string]map[string]string")
    checksum = number_field(data, "checksum", struct, "checksum.Checksum")
    if version == 1:
        ids = {key: _text(value, below(struct, "entries"), key) for key, value in raw.items()}
        computed = fnv32a(_hashed_text_v1(policy, default, ids))
        return _found(1, policy, default, {"": ids}, {}, checksum, computed)
    entries = {}
    for uid, containers in raw.items():
        if not isinstance(containers, dict):
            raise field_error(containers, below(struct, "entries"), uid, "map[string]string")
        entries[uid] = {name: _text(cpus, below(struct, "entries", uid), name) for name, cpus in containers.items()}
    pods = _pods(data, struct) if version == 3 else None
    computed = fnv32a(cpu_hashed_text(policy, default, entries, pods))
    return _found(version, policy, default, entries, pods or {}, checksum, computed)


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
    containers: Mapping[str, tuple[str, str]] | None = None,
    root: str = ROOT,
) -> CpuState | None:
    """Restore what a starting kubelet finds; ``None`` if there is no file.

    :param containers: running containers, id -> (pod uid, container name), to migrate V1.
    :raises CheckpointError: with the kubelet's whole message.
    """
    if text is None:
        return None
    try:
        return _restore(text, policy_name, pod_level, containers or {})
    except CheckpointError as error:
        remedy = f"please drain this node and delete the CPU manager checkpoint file {quote(f'{root}/{FILE}')}"
        message = f"could not restore state from checkpoint: {error}, {remedy} before restarting Kubelet"
        raise CheckpointError(message) from None


def _restore(text: str, policy_name: str, pod_level: bool, containers: Mapping[str, tuple[str, str]]) -> CpuState:
    found = _first_that_reads(text, pod_level)
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
    default = _cpus(found.default, f"could not parse default cpu set {quote(found.default)}")
    sets = {
        uid: {
            name: _cpus(cpus, f"could not parse cpuset {quote(cpus)} for container {quote(name)} in pod {quote(uid)}")
            for name, cpus in names.items()
        }
        for uid, names in entries.items()
    }
    return CpuState(policy_name=policy_name, default=default, entries=sets, pods=dict(found.pods))


def _first_that_reads(text: str, pod_level: bool) -> CpuCheckpoint:
    """Try the newest version first; the error of the oldest is the one that is reported."""
    for version in (3, 2) if pod_level else (2,):
        try:
            found = parse_cpu_checkpoint(text, version)
        except CheckpointError:
            continue
        if found.checksum_ok:
            return found
    found = parse_cpu_checkpoint(text, 1)
    if not found.checksum_ok:
        raise CheckpointError(CORRUPT)
    return found


def _cpus(text: str, problem: str) -> CpuSet:
    try:
        return parse_cpu_list(text)
    except GoError as error:
        raise CheckpointError(f"{problem}: {error}") from None


def read_cpu_checkpoint(text: str, where: str) -> CpuCheckpoint:
    """Read a checkpoint of any version from a node, for judging: a wrong checksum is reported, not refused.

    :raises InputError: it is no checkpoint of any version.
    """
    problem = ""
    readable: list[CpuCheckpoint] = []
    for version in (3, 2, 1):
        try:
            readable.append(parse_cpu_checkpoint(text, version))
        except CheckpointError as error:
            problem = problem or str(error)
    if not readable:
        raise InputError(where, problem, "a cpu_manager_state checkpoint")
    return next((found for found in readable if found.checksum_ok), readable[0])
