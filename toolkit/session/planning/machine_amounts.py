"""Amounts that depend on the machine: ``cpu: "=numa+1"`` in a scenario file becomes a quantity before planning.

An amount is ``=`` and terms with ``+`` or ``-`` between them; a term is a number, or a name that may be divided by a
number (``numa/2``, rounded down) and then multiplied by one (``numa/2*1024``). Names:

==============  =====================================================================
``free``        CPUs that containers can own: online without the reserved ones
``numa``        the free CPUs of the NUMA node that has the most of them
``numa-cores``  the same, counting whole free cores only
``socket``      the same of a socket
``l3``          the same of an L3 group (uncore cache)
``core``        threads of a core; where cores differ, of that with the most
``numa-memory`` bytes of the NUMA node with the most memory that is not reserved
==============  =====================================================================

They are understood under ``resources`` of pods and their containers, and in what a scenario expects of a container
(``shares: "=numa*1024"``) only. Kubernetes has no quantity that begins with ``=``, so a manifest never means something
else by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from toolkit.allocation.machine import Machine
from toolkit.allocation.node import start_node
from toolkit.errors import InputError
from toolkit.kubernetes.node_config import NodeConfig
from toolkit.kubernetes.pod import MEMORY

NAMES = ("free", "numa-memory", "numa-cores", "numa", "socket", "l3", "core")
_TERM = rf"(?:\d{{1,15}}|(?:{'|'.join(NAMES)})(?:/[1-9]\d{{0,5}})?(?:\*[1-9]\d{{0,8}})?)"
_AMOUNT = re.compile(rf"=({_TERM}(?:[+-]{_TERM}){{0,7}})", re.ASCII)
_SIGNED = re.compile(rf"([+-]?)({_TERM})", re.ASCII)


def resolve(pods: Iterable[dict[str, Any]], config: NodeConfig, machine: Machine, where: str) -> list[dict[str, Any]]:
    """Return the manifests with every amount written out; those that hold none come back as they are.

    :raises InputError: an amount that is none, or less than nothing.
    """
    pods = list(pods)
    if not any(_holds_amount(pod) for pod in pods):
        return pods
    values = amounts_of(config, machine)
    return [_resolved(pod, values, f"{where}: pod {i}", inside=False) for i, pod in enumerate(pods)]


def amounts_of(config: NodeConfig, machine: Machine) -> dict[str, int]:
    """Return what each name is on a machine."""
    node = start_node(config, machine)
    free = (node.cpu_policy.allocatable or machine.cpus).mask
    reserved = {entry.numa_node: entry.limits.get(MEMORY) for entry in config.reserved_memory}

    def most(masks: Iterable[int]) -> int:
        return max((mask & free).bit_count() for mask in masks)

    whole = sum(mask for mask in machine.core_masks.values() if not mask & ~free)
    memory = [
        entry.memory_bytes - (kept.value if (kept := reserved.get(entry.id)) is not None else 0)
        for entry in machine.nodes
    ]
    return {
        "free": free.bit_count(),
        "numa": most(machine.numa_masks.values()),
        "numa-cores": max((mask & whole).bit_count() for mask in machine.numa_masks.values()),
        "socket": most(machine.socket_masks.values()),
        "l3": most(machine.uncore_masks.values()),
        "core": max(mask.bit_count() for mask in machine.core_masks.values()),
        "numa-memory": max(memory, default=0),
    }


def _holds_amount(data: Any) -> bool:
    if isinstance(data, dict):
        return any(_holds_amount(value) for value in data.values())
    if isinstance(data, list):
        return any(_holds_amount(value) for value in data)
    return isinstance(data, str) and data.startswith("=")


def _resolved(data: Any, values: dict[str, int], where: str, *, inside: bool) -> Any:
    """Copy a manifest, replacing amounts below ``resources``."""
    if isinstance(data, dict):
        return {
            key: _resolved(value, values, f"{where}.{key}", inside=inside or key == "resources")
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [_resolved(value, values, f"{where}[{i}]", inside=inside) for i, value in enumerate(data)]
    if inside and isinstance(data, str) and data.startswith("="):
        return str(amount(data, values, where))
    return data


def amount(text: str, values: dict[str, int], where: str) -> int:
    """Return what an amount is on a machine. :param values: of each name.

    :raises InputError: it is none, or less than nothing.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise InputError(
            where, repr(text)[:60], f"=TERM[+TERM|-TERM], a term being N, NAME or NAME/N*N: {', '.join(NAMES)}"
        )
    value = 0
    for sign, term in _SIGNED.findall(match[1]):
        quotient, _, factor = term.partition("*")
        name, _, divisor = quotient.partition("/")
        part = (values[name] if name in values else int(name)) // int(divisor or 1) * int(factor or 1)
        value += -part if sign == "-" else part
    if value < 0:
        raise InputError(where, f"{text[:60]} is {value} on this machine", "an amount that is not negative")
    return value
