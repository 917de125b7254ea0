"""Which kubelets the allocation model speaks for, and what to say about another one.

Source: the recordings that the model is held to (docs/simulate-format.md) are answers of one kubelet, v1.36.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolkit.errors import InputError

MODELLED = "v1.36.2"
"""The version whose recorded answers the model reproduces."""
SERIES = (1, 36)
"""Major and minor: patch releases of one series are taken to decide alike."""
STATEMENT = (
    f"Decides as kubelet {MODELLED}, whose recorded answers it reproduces; other v1.36 releases are taken to agree."
)


def statement(version: str) -> str:
    """Return the sentence at the end of a plan: which kubelet decides like this.

    :param version: of the kubelet that was asked about; empty: not known.
    """
    if is_modelled(version, "the kubelet's version"):
        return STATEMENT
    return f"Decides as kubelet {MODELLED}: the decisions of {version} may differ."


_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.\d{1,5})?(?:[-+.][0-9A-Za-z.+-]{1,60})?", re.ASCII)

_UPSTREAM = re.compile(r"v?\d+\.\d+(\.\d+)?(-(alpha|beta|rc)\.\d+)?", re.ASCII)


def series_of(version: str, where: str) -> tuple[int, int]:
    """Return major and minor of ``v1.36.2``, ``1.35`` or ``v1.34.1+k3s1``.

    :raises InputError: it is no version.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise InputError(where, repr(version)[:60], "a kubelet version such as v1.36.2")
    return int(match[1]), int(match[2])


def is_modelled(version: str, where: str) -> bool:
    """Return whether the model is valid for a kubelet of this version; an unknown version (empty) may be.

    :raises InputError: it is no version.
    """
    return not version or series_of(version, where) == SERIES


def is_upstream(version: str) -> bool:
    """Return whether it is a release of Kubernetes itself; distributions have a word of their own behind the number."""
    return _UPSTREAM.fullmatch(version) is not None


def warning(version: str, left_out: Iterable[str]) -> str:
    """Return the one line about a kubelet of another version."""
    gates = ", ".join(left_out)
    also = f"; feature gates that v1.36 does not take are left out: {gates}" if gates else ""
    return f"the kubelet is {version}, the model is of {MODELLED}: its decisions may differ{also}"
