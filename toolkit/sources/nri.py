"""What the resource policies of nri-plugins (balloons, topology-aware) say in their own cache on the node.

The plugin saves the file before it answers the runtime: what stands there is what it has decided, not what a cgroup
has. ``Containers`` has each container as the plugin wants it (``linux.resources.cpu``). Entry ``allocations`` of
``PolicyJSON``, which topology-aware alone writes, says which CPUs are exclusive, and which containers it leaves alone.

Source: https://github.com/containers/nri-plugins ``pkg/resmgr/cache/cache.go`` (``snapshot``, version 1),
``pkg/resmgr/flags.go`` (``--state-dir``), ``cmd/plugins/topology-aware/policy/cache.go`` (``cachedGrant``) and
``pod-preferences.go`` (``cpuType``); https://github.com/containerd/nri ``pkg/api/api.proto`` (``LinuxCPU``).
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from toolkit.errors import InputError
from toolkit.model.cpu_units import MAX_SHARES, MIN_SHARES
from toolkit.model.cpuset import CpuSet
from toolkit.sources.json_parts import load, mapping, number, parsed, text
from toolkit.sources.pinned import Pinned, PinnedWords
from toolkit.text.names import printable
from toolkit.text.wording import kind_of

PLACE = "/var/lib/nri-resource-policy/cache"
"""Where the plugins keep it unless they are told otherwise."""
FILE, FILE_AFTER = "nri/cache.json", "nri/cache_after.json"
"""Its part of a capture; and what it said after the cgroups were read, where that is something else."""
VERSION = "1"
PRESERVE = 2
"""``cpuType`` of a grant that leaves the container's CPUs alone."""
GRANTS = "allocations"
_CPU = ("cpus", "mems", "shares")


@lru_cache(8)
def kept(data: bytes, where: str) -> bytes:
    """Keep of a cache what pins: no environment, arguments, mounts, labels, annotations. Read once, as it is followed.

    :raises InputError: it is no cache; the message quotes nothing of it.
    """
    cache = _cache(data, where)
    containers = {
        text(key): {"Ctr": {"id": text(mapping(mapping(value).get("Ctr")).get("id")), "linux": _linux(value)}}
        for key, value in mapping(cache.get("Containers")).items()
    }
    grants = mapping(cache.get("PolicyJSON")).get(GRANTS)
    found: dict[str, Any] = {
        "Version": cache.get("Version"),
        "PolicyName": text(cache.get("PolicyName")),
        "Containers": containers,
    }
    if isinstance(grants, str):
        fields = ("Container", "Exclusive", "Part", "CPUType", "Pool")
        whole = {key: mapping(one) for key, one in mapping(load(grants.encode(), where)).items()}
        some = {key: {name: one[name] for name in fields if name in one} for key, one in whole.items()}
        found["PolicyJSON"] = {GRANTS: json.dumps(some)}
    return json.dumps(found, indent=1).encode()


def _linux(container: object) -> dict[str, Any]:
    cpu = _cpu(container)
    return {"resources": {"cpu": {name: cpu[name] for name in _CPU if name in cpu}}}


def _cpu(container: object) -> dict[str, Any]:
    linux = mapping(mapping(mapping(container).get("Ctr")).get("linux"))
    return mapping(mapping(linux.get("resources")).get("cpu"))


def _cache(data: bytes, where: str) -> dict[str, Any]:
    try:
        found = load(data, where)
    except InputError:
        raise InputError(where, "not JSON", "the cache of an NRI resource policy") from None
    if not isinstance(found, dict) or not isinstance(found.get("Containers"), dict):
        raise InputError(where, kind_of(found) if not isinstance(found, dict) else "no mapping Containers", "a cache")
    return mapping(found)


def words(cache: str | None, after: str | None = None) -> PinnedWords:
    """Return what the policy has pinned. :param cache, after: :data:`FILE` and :data:`FILE_AFTER`; ``None``: not there.

    What was decided anew while the node was read is no promise: the cgroups may be of before it or of after.
    """
    if cache is None:
        return PinnedWords(by_id={})
    before = _words(cache)
    if after is None or before.unread:
        return before
    then = _words(after)
    moved = sorted(key for key, one in before.by_id.items() if then.by_id.get(key) != one)
    problems = tuple(f"container {key[:12]}: its word changed while the node was read" for key in moved)
    kept_still = {key: one for key, one in before.by_id.items() if key not in moved}
    return PinnedWords(by_id=kept_still, problems=before.problems + problems, unread=then.unread)


@lru_cache(8)
def _words(cache: str) -> PinnedWords:
    try:
        data = _cache(cache.encode("utf-8", "replace"), FILE)
        if data.get("Version") != VERSION:
            raise InputError(f"{FILE}: Version", printable(str(data.get("Version")))[:40], VERSION)
        grants = _grants(data)
    except InputError as error:
        return PinnedWords(by_id={}, unread=str(error))
    source = f"NRI {printable(text(data.get('PolicyName')))[:40] or 'resource policy'}"
    found, problems = {}, []
    for key, container in mapping(data.get("Containers")).items():
        try:
            pinned = _pinned(source, _cpu(container), grants.get(key))
        except InputError as error:
            problems.append(f"container {printable(key)[:12]}: {error}")
            continue
        if pinned is not None:
            found[printable(key)] = pinned
    return PinnedWords(by_id=found, problems=tuple(problems))


def _grants(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    said = mapping(data.get("PolicyJSON")).get(GRANTS)
    if said is None:
        return {}
    if not isinstance(said, str):
        raise InputError(f"{FILE}: {GRANTS}", kind_of(said), "a text")
    whole = load(said.encode(), f"{FILE}: {GRANTS}")
    # By container: the key is that of the grant.
    return {text(mapping(one).get("Container")): mapping(one) for one in mapping(whole).values()}


def _pinned(source: str, cpu: dict[str, Any], grant: dict[str, Any] | None) -> Pinned | None:
    """Return a container's word; ``None``: the policy has pinned neither its CPUs nor its memory."""
    cpus, mems = _set(cpu, "cpus"), _set(cpu, "mems")
    if grant is not None and number(grant.get("CPUType")) == PRESERVE:
        cpus = None
    if not cpus and not mems:
        return None
    own = _set(grant or {}, "Exclusive")
    shares = number(mapping(cpu.get("shares")).get("value"))
    return Pinned(
        source=source,
        cpus=cpus or None,
        mems=mems or None,
        shares=shares if cpus and shares is not None and MIN_SHARES <= shares <= MAX_SHARES else None,
        # With a part of the shared pool, or more than it was granted alone, others run there, too.
        exclusive=bool(own) and own == cpus and not number((grant or {}).get("Part")),
    )


def _set(said: dict[str, Any], name: str) -> CpuSet | None:
    value = said.get(name, "")
    found = parsed(value) if isinstance(value, str) else None
    if found is None:
        raise InputError(f"{FILE}: {name}", printable(str(value))[:60], "a list of numbers")
    return found
