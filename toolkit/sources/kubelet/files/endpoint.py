"""What a kubelet's HTTP endpoint answers, or a file of what it answered: its metrics and its list of pods.

Read-only, with a deadline and a size. A kubelet answers with credentials on port 10250, and without any on its
read-only port, where it has one. No owner's credentials are looked for: what wants the answers of the other port gives
a token, or a file. Of metrics only what is compared is kept; the whole answer has thousands of lines about pods.

Nothing imports this at its top: most nodes are read without, and need no HTTP client's modules.

Source: kubelet reference, ports 10250 (TLS and a token) and 10255 (read-only); Prometheus text format;
KubeletConfiguration v1beta1, ``readOnlyPort`` and ``address``; Pod v1, ``PodList``.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from toolkit.errors import InputError
from toolkit.model.evidence.following import KUBELET_START
from toolkit.regular_file import bytes_of
from toolkit.sources.json_parts import entries, load, mapping
from toolkit.sources.kubelet.files.allow_list import kept_pod
from toolkit.sources.kubelet.files.capture import METRICS
from toolkit.text.names import printable

DEADLINE_S = 5.0
MAX_BYTES = 16 * 1024 * 1024
"""Metrics of thousands of pods, and the list of some thousand."""


def answer_of(where: str, expected: str, *, token: Path | None = None, authority: Path | None = None) -> bytes:
    """Return what is answered there.

    :param where: ``http://...``, ``https://...``, or a file. :param expected: what it is to be, for messages.
    :param token: a file with a bearer token.
    :param authority: certificates (PEM) that the server's is checked by; ``None``: the system's. Of a server on this
        machine's loopback without it no certificate is checked: a kubelet's own is signed by itself.
    :raises InputError: it cannot be read, is too large or too late.
    """
    if urlsplit(where).scheme in ("http", "https"):
        return _get(where, token, authority, expected)
    return bytes_of(Path(where), f"a file or an address with {expected}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is for the server that was named."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _get(where: str, token: Path | None, authority: Path | None, expected: str) -> bytes:
    request = urllib.request.Request(where)  # noqa: S310 http or https, as was asked for
    if token is not None:
        words = bytes_of(token, "a file with a bearer token")
        request.add_header("Authorization", f"Bearer {words.decode('ascii', 'replace').strip()}")
    context = _context(urlsplit(where).hostname or "", authority)
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect())
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=DEADLINE_S) as answer:
            data: bytes = answer.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise InputError(where, f"status {error.code}", expected) from None
    except TimeoutError:
        raise InputError(where, f"no answer within {DEADLINE_S:g} s", expected) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise InputError(where, printable(f"{type(why).__name__}: {why}")[:200], expected) from None
    if len(data) > MAX_BYTES:
        raise InputError(where, "an answer that is too large", f"at most {MAX_BYTES >> 20} MiB")
    return data


def _context(host: str, authority: Path | None) -> ssl.SSLContext:
    """Return how a server is checked. The system's certificates are read (10 ms) where one is checked by them alone."""
    here = _is_loopback(host)
    if here and authority is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    except OSError as error:
        raise InputError(str(authority), error.strerror or str(error), "certificates (PEM)") from None
    if here:
        context.check_hostname = False  # its certificate names the node
    return context


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


EXPECTED_METRICS = "a kubelet's metrics in Prometheus's text format"
_MANAGERS = re.compile(r"kubelet_(?:cpu|memory|topology)_manager_|resource_manager_|kubernetes_build_info", re.ASCII)


def read_metrics(where: str, token: Path | None = None, authority: Path | None = None) -> str:
    """Return the lines of the resource managers.

    :param where, token, authority: see :func:`answer_of`.
    :raises InputError: it cannot be read, is too large or too late, or is no such text.
    """
    data = answer_of(where, EXPECTED_METRICS, token=token, authority=authority)
    lines = [
        line
        for line in data.decode("utf-8", "replace").splitlines()
        if _MANAGERS.match(line) or line.startswith(KUBELET_START)
    ]
    text = "".join(f"{line}\n" for line in lines)
    gauges(text, where)
    if not any(map(_MANAGERS.match, lines)):
        raise InputError(where, "no metric of a kubelet's resource managers", EXPECTED_METRICS)
    return text


def gauges(text: str, where: str = METRICS) -> Mapping[str, float]:
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
        raise InputError(where, f"a line that is no sample ({printable(str(error))[:80]})", EXPECTED_METRICS) from None


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""


EXPECTED_PODS = "a kubelet's list of pods (JSON, kind: PodList)"
_KINDS = ("PodList", "List")


def read_pods(where: str, token: Path | None = None, authority: Path | None = None) -> bytes:
    """Return the list as a capture has it: names, UIDs, resources and states.

    :param where, token, authority: see :func:`answer_of`.
    :raises InputError: it cannot be read, or is no such list; the message quotes nothing of it.
    """
    # Not at the top: most nodes are read without, and need no HTTP client's modules.

    data = answer_of(where, EXPECTED_PODS, token=token, authority=authority)
    try:
        answer = mapping(load(data, where))
        pods = entries(answer.get("items"), where)
    except InputError:
        raise InputError(where, "no such list", EXPECTED_PODS) from None
    if answer.get("kind") not in _KINDS:
        raise InputError(where, "no list of pods", EXPECTED_PODS)
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [kept_pod(one) for one in pods]}).encode()
