"""A container engine's HTTP API on its unix socket: GET only, with a deadline and a size limit.

Source: Docker Engine API v1.41 (``/containers/json``, ``/containers/{id}/json``, ``/info``); podman-system-service(1),
which serves the same paths; unix(7).
"""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.sources import json_parts
from toolkit.text.names import printable

DEADLINE_S = 10.0
MAX_BYTES = 16 * 1024 * 1024


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=DEADLINE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(os.fsencode(self._path))


def get(path: Path, request: str) -> Any:
    """Ask for a resource; return its JSON.

    :raises NotFoundError: status 404: it is gone meanwhile.
    :raises InputError: no socket, nothing listens, no right, too late, too large, no HTTP, no JSON, another status.
    """
    where, expected = f"{printable(str(path))} {request}", "a container engine's API"
    connection = _Connection(path)
    try:
        connection.request("GET", request)
        answer = connection.getresponse()
        data = answer.read(MAX_BYTES + 1)
    except TimeoutError:
        raise InputError(where, f"no answer within {DEADLINE_S:g} s", expected) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        found = getattr(error, "strerror", None) or f"no HTTP ({type(error).__name__})"
        raise InputError(where, found, expected) from None
    finally:
        connection.close()
    if len(data) > MAX_BYTES:
        raise InputError(where, "an answer that is too large", f"at most {MAX_BYTES >> 20} MiB")
    if answer.status == http.HTTPStatus.NOT_FOUND:
        raise NotFoundError(where, "not found", "a container that exists")
    if answer.status != http.HTTPStatus.OK:
        raise InputError(where, f"status {answer.status}", expected)
    return json_parts.load(data, where)


class NotFoundError(InputError):
    """The engine does not know what it was asked about: it is gone meanwhile."""
