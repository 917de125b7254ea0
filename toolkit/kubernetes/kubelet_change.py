"""``OPTION=VALUE`` on a command line as a change of a KubeletConfiguration: a JSON merge patch.

An option is a field (``cpuManagerPolicy``), an entry of one (``kubeReserved.cpu``), or the bare name of a feature gate
or of a policy's option (``PodLevelResourceManagers``, ``full-pcpus-only``). No value takes it back to its default.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from toolkit.errors import InputError
from toolkit.kubernetes.feature_gates import GROUPS
from toolkit.kubernetes.known_gates import KNOWN
from toolkit.kubernetes.node_config import FIELDS
from toolkit.kubernetes.releases import GATE

CPU_OPTIONS = "cpuManagerPolicyOptions"
TOPOLOGY_OPTIONS = "topologyManagerPolicyOptions"
GATE_FIELD = "featureGates"
_BOOLEANS = frozenset({"cpuCFSQuota"})
_NUMBERS = frozenset({"maxPods", "podsPerCore"})
_TEXTS = frozenset(
    {
        *("cpuManagerPolicy", "memoryManagerPolicy", "topologyManagerPolicy", "topologyManagerScope", "cgroupDriver"),
        *("reservedSystemCPUs", "cpuCFSQuotaPeriod", "systemReservedCgroup", "kubeReservedCgroup"),
    }
)
_MAPPINGS = frozenset({CPU_OPTIONS, TOPOLOGY_OPTIONS, GATE_FIELD, "kubeReserved", "systemReserved", "evictionHard"})


def patch_of(changes: Iterable[str], cpu_options: Iterable[str], topology_options: Iterable[str]) -> dict[str, Any]:
    """Return the merge patch of all changes.

    :param cpu_options: names of the CPU Manager's policy options, ``topology_options`` of the Topology Manager's.
    :raises InputError: no ``OPTION=VALUE``, an unknown option, a value that is none of its.
    """
    patch: dict[str, Any] = {}
    options = {**dict.fromkeys(cpu_options, CPU_OPTIONS), **dict.fromkeys(topology_options, TOPOLOGY_OPTIONS)}
    for change in changes:
        name, sign, text = change.partition("=")
        where = f"--diff {change[:80]}"
        if not sign or not name:
            raise InputError(where, "no value", "OPTION=VALUE")
        field, key = _place(name, options, where)
        value = _value(field, text, where)
        if not key:
            patch[field] = value
        else:
            inner = patch.setdefault(field, {})
            inner[key] = value
    return patch


def _place(name: str, options: dict[str, str], where: str) -> tuple[str, str]:
    field, _, key = name.partition(".")
    if field in _MAPPINGS and key:
        return field, key
    if name in options:
        return options[name], name
    if name in KNOWN or name in GATE or name in GROUPS:
        return GATE_FIELD, name
    if name in _TEXTS | _BOOLEANS | _NUMBERS:
        return name, ""
    known = sorted({*_TEXTS, *_BOOLEANS, *_NUMBERS, *options, *KNOWN, *(f"{field}.KEY" for field in _MAPPINGS)})
    if name in FIELDS:
        raise InputError(where, f"{name} as a whole", f"{name}.KEY=VALUE" if name in _MAPPINGS else "another option")
    close = difflib.get_close_matches(name, known, n=1)
    expected = close[0] if close else "a KubeletConfiguration field, a policy option or a feature gate"
    raise InputError(where, f"unknown option {name[:60]!r}", expected)


def _value(field: str, text: str, where: str) -> str | bool | int | None:
    if not text:
        return None
    if field in _NUMBERS:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InputError(where, repr(text)[:60], "a whole number")
        return int(text)
    if field not in (*_BOOLEANS, GATE_FIELD):
        return text
    if text not in ("true", "false"):
        raise InputError(where, repr(text)[:60], "true or false")
    return text == "true"
