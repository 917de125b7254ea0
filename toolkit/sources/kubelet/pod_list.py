"""The kubelet's own list of its pods, ``/pods``, without what may be a secret.

A kubelet answers it with credentials on port 10250, and without any on its read-only port, where it has one. No owner's
credentials are looked for: what wants the list of the other port gives a token, or a file.
Source: kubelet reference; KubeletConfiguration v1beta1, ``readOnlyPort`` and ``address``; Pod v1, ``PodList``.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

from toolkit.errors import InputError
from toolkit.sources.kubelet import kept
from toolkit.sources.kubelet.configuration import KubeletConfiguration
from toolkit.sources.kubelet.json_parts import entries, load, mapping

FILE = "pods.json"
"""In a capture."""
EXPECTED = "a kubelet's list of pods (JSON, kind: PodList)"
_KINDS = ("PodList", "List")


def read_pods(where: str, token: Path | None = None, authority: Path | None = None) -> bytes:
    """Return the list as a capture has it: names, UIDs, resources and states.

    :param where, token, authority: see :func:`toolkit.sources.kubelet.endpoint.answer_of`.
    :raises InputError: it cannot be read, or is no such list; the message quotes nothing of it.
    """
    # Not at the top: most nodes are read without, and need no HTTP client's modules.
    from toolkit.sources.kubelet.endpoint import answer_of

    data = answer_of(where, EXPECTED, token=token, authority=authority)
    try:
        answer = mapping(load(data, where))
        pods = entries(answer.get("items"), where)
    except InputError:
        raise InputError(where, "no such list", EXPECTED) from None
    if answer.get("kind") not in _KINDS:
        raise InputError(where, "no list of pods", EXPECTED)
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [kept.pod(one) for one in pods]}).encode()


def address(configuration: KubeletConfiguration | None, proc: Path, pid: int | None, path: str = "/pods") -> str:
    """Return where a running kubelet answers without credentials; empty: nowhere that can be reached from here.

    :param path: what is asked for there. :param proc: where processes are.
    :param pid: the kubelet. One in another network namespace has other ports.
    """
    if configuration is None or not 0 < configuration.read_only_port < 1 << 16 or pid is None:
        return ""
    try:
        if not (proc / str(pid) / "ns/net").samefile("/proc/self/ns/net"):
            return ""
        given = ipaddress.ip_address(configuration.address or "0.0.0.0")  # noqa: S104 its default: all addresses
    except (OSError, ValueError):
        return ""
    host = ("127.0.0.1" if given.version == 4 else "::1") if given.is_unspecified else str(given)
    return f"http://{f'[{host}]' if ':' in host else host}:{configuration.read_only_port}{path}"
