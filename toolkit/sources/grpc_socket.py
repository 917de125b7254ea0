"""Calls over gRPC to a unix socket of this machine: each has a deadline, a size limit, and an error of one line.

Source: https://grpc.io/docs/guides/status-codes/; https://grpc.github.io/grpc/core/group__grpc__arg__keys.html;
unix(7) for what connect(2) answers.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from toolkit.errors import InputError
from toolkit.sources import messages
from toolkit.text.names import from_path, printable

DEADLINE_S = 5.0
"""A runtime answers in milliseconds; one that takes seconds is at work or hangs."""
MAX_BYTES = 16 * 1024 * 1024
"""The kubelet's own limit for an answer of the runtime (``maxMsgSize``, pkg/kubelet and cri-client)."""

MAX_PATH = 107
"""Bytes, without the zero behind them. Source: unix(7), ``sun_path``."""


class UnimplementedError(InputError):
    """The server is there and does not know this call: an older version."""


class NotFoundError(InputError):
    """The server does not know what it was asked about: it is gone meanwhile."""


def socket_path(endpoint: str) -> Path:
    """Return the path of ``unix:///run/x.sock``, ``unix:/run/x.sock`` or a plain path.

    :raises InputError: another scheme, no absolute path, or one that no socket can be connected to by: gRPC would write
        lines of its own about that.
    """
    path = endpoint.removeprefix("unix:")
    path = path[2:] if path.startswith("///") else path
    if not path.startswith("/") or path.startswith("//") or "\0" in path:
        raise InputError("endpoint", printable(endpoint[:200]), "a unix socket: unix:///run/containerd/containerd.sock")
    if len(os.fsencode(path)) > MAX_PATH:
        shown = printable(from_path(Path(path))[:200])
        raise InputError(shown, f"a path of {len(os.fsencode(path))} bytes", f"at most {MAX_PATH}, as sockets have")
    return Path(path)


class Connection:
    """One service behind one socket; a context manager. Nothing is connected before the first call.

    A server is never connected to without a call: an older kubelet logs each such client, at each reading.
    """

    def __init__(self, endpoint: str, service: str, classes: dict[str, Any], deadline_s: float | None = None) -> None:
        """Prepare the calls. :param deadline_s: of each; ``None``: :data:`DEADLINE_S`.

        :raises InputError: no path of a socket.
        :raises HostUnsupportedError: grpcio is not installed.
        """
        try:
            import grpc
        except ImportError:
            raise messages.missing("grpcio") from None
        self._grpc = grpc
        self.path = socket_path(endpoint)
        self._service, self._classes = service, classes
        self._deadline_s = DEADLINE_S if deadline_s is None else deadline_s
        self._channel: Any = None
        self._stubs: dict[str, Any] = {}

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            self._channel.close()

    def ask_for(self, service: str) -> None:
        """Make the next calls to another service behind the same socket; its messages are the same."""
        self._service, self._stubs = service, {}

    def call(self, method: str, request: str, response: str, **fields: object) -> dict[str, Any]:
        """Make one call; errors as :meth:`message`.

        :returns: the answer as protobuf's JSON has it, see :func:`as_json`.
        """
        return as_json(self.message(method, request, response, **fields))

    def message(self, method: str, request: str, response: str, **fields: object) -> Any:
        """Make one call.

        :returns: the answer, a message. Errors of one that cannot be connected to are the kernel's words.
        :raises UnimplementedError: the server does not know the call.
        :raises NotFoundError: the server does not know the subject of the call.
        :raises InputError: refused, too late, too large, or not the message that was agreed.
        """
        from google.protobuf.message import DecodeError

        if method not in self._stubs:
            self._stubs[method] = (self._channel or self._open()).unary_unary(
                f"/{self._service}/{method}",
                request_serializer=self._classes[request].SerializeToString,
                response_deserializer=bytes,
            )
        try:
            data = self._stubs[method](self._classes[request](**fields), timeout=self._deadline_s)
        except self._grpc.RpcError as error:
            raise self._told(method, error.code(), error.details() or "") from None
        try:  # Not in grpc's thread: it would print a traceback for an exception in there.
            return self._classes[response].FromString(data)
        except (DecodeError, UnicodeDecodeError):
            raise InputError(f"{self._where} {method}", "an answer that is no such message", f"a {response}") from None

    def _open(self) -> Any:
        """Open the channel. :raises InputError: there is no socket: gRPC needs a millisecond to find that out."""
        _look(self.path)
        options = (
            ("grpc.max_receive_message_length", MAX_BYTES),
            ("grpc.default_authority", "localhost"),  # Go's servers refuse the path of a socket as an authority
            ("grpc.enable_retries", 0),
        )
        self._channel = self._grpc.insecure_channel(f"unix:{quote(os.fsencode(self.path))}", options=options)
        return self._channel

    @property
    def _where(self) -> str:
        return printable(str(self.path))

    def _told(self, method: str, code: Any, details: str) -> InputError:
        where, codes = f"{self._where} {method}", self._grpc.StatusCode
        text = printable(details[:300])
        if code is codes.UNIMPLEMENTED:
            return UnimplementedError(where, f"unimplemented ({text})", f"a server of {self._service}")
        if code is codes.NOT_FOUND:
            return NotFoundError(where, f"not found ({text})", "a container that exists")
        if code is codes.DEADLINE_EXCEEDED:
            return InputError(where, f"no answer within {self._deadline_s:g} s", "a server that is not hung")
        if code is codes.RESOURCE_EXHAUSTED:
            return InputError(where, f"refused or too large ({text})", f"an answer of at most {MAX_BYTES >> 20} MiB")
        if code is codes.UNAVAILABLE:
            _knock(self.path, self._deadline_s)
            return InputError(where, f"the connection broke ({text})", "a gRPC server behind this socket")
        return InputError(where, f"{code.name.lower()} ({text})", "an answer")


def as_json(message: Any) -> dict[str, Any]:
    """Return a message as protobuf's JSON has it: camelCase, 64-bit numbers as strings, enums by name, and nothing for
    a field that has its default.
    """
    from google.protobuf.json_format import MessageToDict

    found = MessageToDict(message)
    assert isinstance(found, dict)
    return found


def _knock(path: Path, deadline_s: float) -> None:
    """Connect once without a word: the kernel says precisely what grpc calls "unavailable".

    :raises InputError: no socket there, nothing listens, or no right to connect.
    """
    where, expected = _look(path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(deadline_s)
            probe.connect(os.fsencode(path))
    except TimeoutError:
        raise InputError(where, f"no connection within {deadline_s:g} s", expected) from None
    except OSError as error:
        raise InputError(where, error.strerror or str(error), expected) from None


def _look(path: Path) -> tuple[str, str]:
    """Look whether there is a socket; returns how it is called, and what is expected there.

    :raises InputError: there is none.
    """
    where, expected = printable(str(path)), "the socket of a running server"
    try:
        is_socket = stat.S_ISSOCK(path.stat().st_mode)
    except OSError as error:
        raise InputError(where, error.strerror or str(error), expected) from None
    if not is_socket:
        raise InputError(where, "not a socket", expected)
    return where, expected
