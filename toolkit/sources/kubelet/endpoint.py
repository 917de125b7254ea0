"""What a kubelet's HTTP endpoint answers, or a file of what it answered. Read-only, with a deadline and a size.

Source: kubelet reference, ports 10250 (TLS and a token) and 10255 (read-only).
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from toolkit.errors import InputError
from toolkit.sources.kubelet.live_files import bytes_of
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
