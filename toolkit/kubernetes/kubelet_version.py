"""Which kubelets the allocation model speaks for, and what to say about another one.

Source: the recordings that the model is held to (docs/simulate-format.md) are answers of one kubelet, v1.36.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolkit.errors import InputError
from toolkit.kubernetes.releases import MODEL, NEWEST, Series, series_text, unlike

MODELLED = "v1.36.2"
"""The version whose recorded answers the model reproduces."""
SERIES: Series = MODEL
"""Major and minor: patch releases of one series are taken to decide alike."""
ASKED = "--kubelet-version names it"
STATEMENT = (
    f"Decides as kubelet {MODELLED}, whose recorded answers it reproduces; other v1.36 releases are taken to agree."
)


def statement(version: str | None, *, named: bool = True) -> str:
    """Return the sentence at the end of a plan: which kubelet decides like this.

    :param version: of the kubelet that was asked about; empty: not known; ``None``: a scenario is planned, for none.
    :param named: whether an option can name it.
    """
    if version == "":
        how = f" ({ASKED})" if named else ""
        return f"The kubelet's version is not known{how}: what it decides is answered as {MODELLED} does."
    if version is None or is_modelled(version, "the kubelet's version"):
        return STATEMENT
    series = series_of(version, "the kubelet's version")
    if not series[0]:
        return f"Decides as kubelet {MODELLED}: {_unlike(version)}."
    off, on = unlike(series, SERIES)
    gates = f" Gates that it has off by default are off unless they are set: {', '.join(off)}." if off else ""
    gates += f" Gates that it has on by default, and are not modelled: {', '.join(on)}." if on else ""
    return f"Decides as kubelet {MODELLED}: {_unlike(version)}.{gates}"


def _unlike(version: str) -> str:
    """Say how the answers of a kubelet of another series relate to the model's."""
    series = series_of(version, "the kubelet's version")
    if not series[0]:
        return f"{version} was built from no release, and is answered as {series_text(SERIES)}"
    if series > NEWEST:
        newest = series_text(NEWEST)
        return f"{version} is newer than what is known here, and is answered as {newest}; its decisions may differ"
    return f"the decisions of {version} may differ"


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
    """Return whether the model is valid for a kubelet of this version.

    :raises InputError: it is no version.
    """
    return series_of(version, where) == SERIES


def is_upstream(version: str) -> bool:
    """Return whether it is a release of Kubernetes itself; distributions have a word of their own behind the number."""
    return _UPSTREAM.fullmatch(version) is not None


def warning(version: str, left_out: Iterable[str]) -> str:
    """Return the one line about a kubelet of another version."""
    gates = ", ".join(left_out)
    also = f"; feature gates that v1.36 does not take are left out: {gates}" if gates else ""
    return f"the kubelet is {version}, the model is of {MODELLED}: {_unlike(version)}{also}"
