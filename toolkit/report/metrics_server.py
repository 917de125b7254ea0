"""The metrics on a port: for a scraper, beside clients that are silent, slow, many, or speak no HTTP.

Whatever they do costs the observer a bounded number of threads and open files, and writes nothing into its log.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import choose_encoder

from toolkit.errors import InputError
from toolkit.report.metrics import Judge, Promised, SessionCollector, WithNative, registered
from toolkit.session.windows.counters import SessionState
from validators.registry import judge

REQUEST_TIMEOUT_S = 5.0
"""How long a client may be silent."""
MOST_CLIENTS = 32
"""Connections at a time. A scrape takes milliseconds: of more than that the oldest has had its time."""
_MOST_LINE = 65536
_VERSION = re.compile(r"version\s*=([^,;]*)")
_OPENMETRICS = re.compile(r"application/openmetrics-text; version=(\d{1,4})\.")
_NUMBER = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}", re.ASCII)


class MetricsServer:
    """Serves the metrics while the block runs; does nothing if ``port`` is ``None``. Port 0 takes a free one."""

    def __init__(
        self,
        claims: Promised,
        read_state: Callable[[], SessionState],
        address: str = "127.0.0.1",
        port: int | None = None,
        judge: Judge = judge,
    ) -> None:
        self._wanted = port
        self._address = address
        self._collector = SessionCollector(claims, read_state, judge)
        self._server: WSGIServer | None = None

    @property
    def port(self) -> int | None:
        """The port that is served, ``None`` if none is."""
        return None if self._server is None else self._server.server_port

    def __enter__(self) -> MetricsServer:
        if self._wanted is not None:
            try:
                self._server = _server(self._address, self._wanted, _app(self._collector))
            except (OSError, OverflowError, UnicodeError) as error:
                where = f"metrics on {self._address}:{self._wanted}"
                text = getattr(error, "strerror", None) or str(error)
                raise InputError(where, text, "an address and port that are free") from None
            threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def _app(collector: SessionCollector) -> Any:
    """Answer with native histograms where the format has them that the client library chooses: OpenMetrics 2.0."""
    plain, native = make_wsgi_app(registered(collector)), make_wsgi_app(registered(WithNative(collector)))

    def chosen(environ: dict[str, Any], start_response: Any) -> Any:
        kind = choose_encoder(environ.get("HTTP_ACCEPT", ""))[1]
        has_native = _OPENMETRICS.match(kind)
        return (native if has_native and int(has_native[1]) >= 2 else plain)(environ, start_response)

    return chosen


def _strict(app: Any) -> Any:
    """Leave out an Accept header whose version is no number: the client library fails over it."""

    def strict(environ: dict[str, Any], start_response: Any) -> Any:
        if any(not _NUMBER.fullmatch(version) for version in _VERSION.findall(environ.get("HTTP_ACCEPT", ""))):
            del environ["HTTP_ACCEPT"]
        return app(environ, start_response)

    return strict


def _server(address: str, port: int, app: Any) -> WSGIServer:
    family = socket.getaddrinfo(address, port)[0][0]
    kind = type("_Family", (_Server,), {"address_family": family})
    handler = type("_Patient", (_Handler,), {"timeout": REQUEST_TIMEOUT_S})
    return make_server(address, port, _strict(app), kind, handler_class=handler)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        self._changing = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changing:
            if len(self._open) >= MOST_CLIENTS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                # Its thread reads an end, and closes it.
                _cut(oldest)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._changing:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away: everything that can connect could fill the log."""


def _cut(client: socket.socket) -> None:
    try:
        client.shutdown(socket.SHUT_RDWR)
    except OSError:
        """It has gone by itself."""


class _Answer(ServerHandler):
    def log_exception(self, exc_info: Any) -> None:
        """Report what is wrong with us, one time, and not that a client reads no more."""
        if not isinstance(exc_info[1], OSError) and not _Answer.reported:
            _Answer.reported = True
            super().log_exception(exc_info)

    reported = False


class _Handler(WSGIRequestHandler):
    def handle(self) -> None:
        """Answer one request. As in the base class, but for what writes the answer."""
        self.raw_requestline = self.rfile.readline(_MOST_LINE + 1)
        if len(self.raw_requestline) > _MOST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
            return
        if not self.parse_request():  # what is wrong has been answered
            return
        out: Any = self.wfile
        answer = _Answer(self.rfile, out, self.get_stderr(), self.get_environ(), multithread=True)
        answer.request_handler = self  # type: ignore[attr-defined]
        answer.run(self.server.get_app())  # type: ignore[attr-defined]

    def log_message(self, *_: Any) -> None:
        """Write no line for each request."""
