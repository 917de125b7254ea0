"""What the DRA driver for CPUs (dra-driver-cpu) has given to containers: one variable of their environment a claim.

The driver writes a CDI specification when the kubelet prepares a claim (``DRA_CPUSET_<UID of the claim>=<CPUs>``), the
runtime copies the variable into the container, and the driver's NRI hook pins the container to the CPUs that both say.
A variable alone is no word of the driver: a pod may write one itself. A claim's CPUs are exclusive from the start of
its container on; what shares the rest may keep CPUs of a claim that is only prepared.

Source: https://github.com/kubernetes-sigs/dra-driver-cpu ``pkg/driver/cdi.go``, ``nri_hooks.go``
(``validateSynchronizedClaimAllocation``), ``docs/user/how-it-works.md``; CDI specification 0.8.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from toolkit.errors import InputError
from toolkit.model.cpuset import CpuSet
from toolkit.model.node_reading import NamedText, RuntimeContainer
from toolkit.sources.json_parts import items, load, mapping, parsed, text
from toolkit.sources.pinned import Pinned, PinnedWords
from toolkit.text.names import printable

SOURCE = "the DRA CPU driver"
PREFIX = "DRA_CPUSET_"
PLACES = ("/var/run/cdi", "/etc/cdi")
"""Folders of CDI specifications; the driver writes to the first one."""
FOLDER = "cdi/"
"""Where a capture has them."""
KIND, DEVICE = "dra.k8s.io/cpu", "claim-"
STARTS, ENDS = "dra.k8s.io-cpu", ".json"
"""Of the names of the driver's files."""
MAX_SPECIFICATIONS = 2000
_MAX_TEXT = 4096


def variables(environment: object) -> dict[str, str]:
    """Return UID of the claim to CPUs, as a container's environment says; of the rest nothing is looked at."""
    lines = (text(line) for line in items(environment))
    pairs = (line.removeprefix(PREFIX).partition("=") for line in lines if line.startswith(PREFIX))
    return {uid: cpus for uid, _, cpus in pairs if len(uid) + len(cpus) < _MAX_TEXT}


@lru_cache(256)
def kept(data: bytes, where: str) -> bytes:
    """Keep of a CDI specification the driver's devices and their variables.

    :raises InputError: it is no specification of this driver; the message quotes nothing of it.
    """
    devices = [
        {"name": name, "containerEdits": {"env": [f"{PREFIX}{uid}={cpus}" for uid, cpus in found.items()]}}
        for name, found in _devices(data, where)
    ]
    return json.dumps({"kind": KIND, "devices": devices}, indent=1).encode()


def _devices(data: bytes, where: str) -> list[tuple[str, dict[str, str]]]:
    try:
        found = load(data, where)
    except InputError:
        raise InputError(where, "not JSON", "a CDI specification") from None
    if mapping(found).get("kind") != KIND:
        raise InputError(where, "of another kind, or none", f"a CDI specification of kind {KIND}")
    rows = (mapping(one) for one in items(mapping(found).get("devices")))
    return [(text(row.get("name")), variables(mapping(row.get("containerEdits")).get("env"))) for row in rows]


def words(specifications: Sequence[NamedText], containers: Iterable[RuntimeContainer]) -> PinnedWords:
    """Return what the driver has pinned. :param specifications: CDI files of the driver."""
    prepared, unread = _prepared(specifications)
    found, problems = {}, []
    for one in containers:
        try:
            if one.dra_cpus:
                found[printable(one.id)] = Pinned(source=SOURCE, cpus=_cpus(one.dra_cpus, prepared), exclusive=True)
        except InputError as error:
            problems.append(f"{printable(one.pod_name)}/{printable(one.name)}: {error}")
    return PinnedWords(by_id=found, problems=tuple(problems), unread=unread)


def _prepared(specifications: Iterable[NamedText]) -> tuple[dict[str, str], str]:
    found: dict[str, str] = {}
    unread = ""
    for one in specifications:
        try:
            devices = _devices(one.text.encode("utf-8", "replace"), one.name)
        except InputError as error:
            unread = unread or str(error)
            continue
        for name, said in devices:
            found |= {uid: cpus for uid, cpus in said.items() if name == f"{DEVICE}{uid}"}
    return found, unread


def _cpus(said: Mapping[str, str], prepared: Mapping[str, str]) -> CpuSet:
    """Return the CPUs of all claims of a container.

    :raises InputError: a claim's CPUs are no list, or not those that the driver has prepared.
    """
    whole: list[CpuSet] = []
    for uid, cpus in sorted(said.items()):
        where, own = f"{PREFIX}{printable(uid)[:40]}", parsed(cpus)
        if not own:
            raise InputError(where, printable(cpus)[:60] or "no CPU", "a list of CPUs")
        if uid not in prepared:
            raise InputError(where, "no CDI specification of the driver has this claim", "one that it prepared")
        if parsed(prepared[uid]) != own:
            shown = printable(prepared[uid])[:60]
            raise InputError(where, f"CPUs {own}", f"those of its CDI specification, {shown}")
        whole.append(own)
    return CpuSet.union(whole)
