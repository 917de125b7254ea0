"""A kubelet's own metrics of its resource managers, from its HTTP endpoint or from a file of what that answered.

Only what is compared is kept; the whole answer has thousands of lines about pods.
Source: kubelet reference, ports 10250 (``/metrics``, TLS and a token) and 10255 (read-only); Prometheus text format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from toolkit.errors import InputError
from toolkit.model.evidence.following import KUBELET_START
from toolkit.sources.kubelet import metrics_text
from toolkit.sources.kubelet.endpoint import answer_of
from toolkit.text.names import printable

FILE = metrics_text.FILE
EXPECTED = "a kubelet's metrics in Prometheus's text format"
_MANAGERS = re.compile(r"kubelet_(?:cpu|memory|topology)_manager_|resource_manager_|kubernetes_build_info", re.ASCII)


def read_metrics(where: str, token: Path | None = None, authority: Path | None = None) -> str:
    """Return the lines of the resource managers.

    :param where, token, authority: see :func:`toolkit.sources.kubelet.endpoint.answer_of`.
    :raises InputError: it cannot be read, is too large or too late, or is no such text.
    """
    data = answer_of(where, EXPECTED, token=token, authority=authority)
    lines = [
        line
        for line in data.decode("utf-8", "replace").splitlines()
        if _MANAGERS.match(line) or line.startswith(KUBELET_START)
    ]
    text = "".join(f"{line}\n" for line in lines)
    gauges(text, where)
    if not any(map(_MANAGERS.match, lines)):
        raise InputError(where, "no metric of a kubelet's resource managers", EXPECTED)
    return text


def gauges(text: str, where: str = FILE) -> Mapping[str, float]:
    """Return samples by name with labels, as they are written: ``name{label="value"}``.

    :raises InputError: no such text.
    """
    try:
        return {
            sample.name + _labels(sample.labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:  # what the parser raises of nonsense
        raise InputError(where, f"a line that is no sample ({printable(str(error))[:80]})", EXPECTED) from None


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""
