"""A kubelet's own metrics of its resource managers, from its HTTP endpoint or from a file of what that answered.

Only what is compared is kept; the whole answer has thousands of lines about pods.
Source: kubelet reference, ports 10250 (``/metrics``, TLS and a token) and 10255 (read-only); Prometheus text format.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from toolkit.errors import InputError
from toolkit.model.names import printable
from toolkit.sources.kubelet import metrics_text
from toolkit.sources.kubelet.live_files import bytes_of

FILE = metrics_text.FILE
DEADLINE_S = 5.0
MAX_BYTES = 16 * 1024 * 1024
EXPECTED = "a kubelet's metrics in Prometheus's text format"
_KEPT = re.compile(r"(?:kubelet_(?:cpu|memory|topology)_manager_|resource_manager_|kubernetes_build_info)", re.ASCII)


def read_metrics(where: str, token: Path | None = None, authority: Path | None = None) -> str:
    """Return the lines of the resource managers.

    :param where: ``http://...``, ``https://...``, or a file. :param token: a file with a bearer token.
    :param authority: certificates (PEM) that the server's is checked by; ``None``: the system's. Of a server on this
        machine's loopback without it no certificate is checked: a kubelet's own is signed by itself.
    :raises InputError: it cannot be read, is too large or too late, or is no such text.
    """
    if urlsplit(where).scheme in ("http", "https"):
        data = _get(where, token, authority)
    else:
        data = bytes_of(Path(where), f"a file or an address with {EXPECTED}")
    lines = [line for line in data.decode("utf-8", "replace").splitlines() if _KEPT.match(line)]
    text = "".join(f"{line}\n" for line in lines)
    gauges(text, where)
    if not text:
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


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is for the server that was named."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _get(where: str, token: Path | None, authority: Path | None) -> bytes:
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
        raise InputError(where, f"status {error.code}", EXPECTED) from None
    except TimeoutError:
        raise InputError(where, f"no answer within {DEADLINE_S:g} s", EXPECTED) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise InputError(where, printable(f"{type(why).__name__}: {why}")[:200], EXPECTED) from None
    if len(data) > MAX_BYTES:
        raise InputError(where, "an answer that is too large", f"at most {MAX_BYTES >> 20} MiB")
    return data


def _context(host: str, authority: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    except OSError as error:
        raise InputError(str(authority), error.strerror or str(error), "certificates (PEM)") from None
    if _is_loopback(host):
        context.check_hostname = False  # its certificate names the node
        if authority is None:
            context.verify_mode = ssl.CERT_NONE
    return context


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
