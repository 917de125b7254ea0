"""The metrics on a port: served to a scraper, whatever other clients do."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.unit.validators.evidence_builder import claim_set, evidence
from toolkit.errors import InputError
from toolkit.report import metrics_server
from toolkit.report.metrics_server import MOST_CLIENTS, MetricsServer
from toolkit.session.windows.counters import SessionState


def state_now() -> SessionState:
    """The first window of a session, open."""
    return SessionState(open=evidence())


def test_server() -> None:
    """It serves on loopback while the block runs, looks once for scrapes close together, and then stops."""
    taken = []

    def taken_now() -> SessionState:
        taken.append(1)
        return state_now()

    with MetricsServer(claim_set, taken_now, "127.0.0.1", 0) as server:
        port = server.port
        assert port
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                assert b"pinproof_switches_judged_total 1.204331e+06" in answer.read()
    assert len(taken) == 1
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))


def test_a_silent_client_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that connects and says nothing is let go of; others are served meanwhile."""
    monkeypatch.setattr(metrics_server, "REQUEST_TIMEOUT_S", 0.5)
    with MetricsServer(claim_set, state_now, "127.0.0.1", 0) as server:
        address = ("127.0.0.1", server.port or 0)
        with socket.create_connection(address, timeout=60) as silent:
            with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=60) as answer:
                assert b"pinproof_window_seconds" in answer.read()
            assert silent.recv(1) == b""


def test_ipv6() -> None:
    """An address of the other family is one, too."""
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    with (
        MetricsServer(claim_set, state_now, "::1", 0) as server,
        urllib.request.urlopen(f"http://[::1]:{server.port}/metrics", timeout=60) as answer,
    ):
        assert b"pinproof_window_seconds" in answer.read()


def test_no_port_no_server() -> None:
    """Without a port nothing is served and nothing looks."""
    with MetricsServer(claim_set, state_now) as server:
        assert server.port is None


def test_a_taken_port_is_one_line() -> None:
    """A port in use, or an address that is not ours, is an input error."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with (
            pytest.raises(InputError, match="metrics on 127"),
            MetricsServer(claim_set, state_now, "127.0.0.1", holder.getsockname()[1]),
        ):
            pass
    with pytest.raises(InputError, match="metrics on 192"), MetricsServer(claim_set, state_now, "192.0.2.1", 0):
        pass
    with pytest.raises(InputError, match="metrics on x"), MetricsServer(claim_set, state_now, "x" * 70, 0):
        pass


def scraped(port: int | None) -> bytes:
    """What a scraper gets."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        found: bytes = answer.read()
        return found


def test_many_silent_clients_leave_room(capfd: pytest.CaptureFixture[str]) -> None:
    """The oldest make room, long before they are dropped for their silence; the log has no word of them."""
    with MetricsServer(claim_set, state_now, "127.0.0.1", 0) as server, ExitStack() as open_ones:
        address = ("127.0.0.1", server.port or 0)
        clients = [
            open_ones.enter_context(socket.create_connection(address, timeout=60)) for _ in range(MOST_CLIENTS + 8)
        ]
        assert b"pinproof_window_seconds" in scraped(server.port)
        assert clients[0].recv(1) == b"", "it ends before this client's patience of 60 s and the server's of 120 s"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "request_line",
    [
        b"",
        b"\0\r\n\r\n",
        b"GET /metrics",
        b"G" * 70_000 + b"\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text; version=x\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\nAccept: text/plain;version=" + b"9" * 5000 + b"\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"POST /metrics HTTP/9.9\r\nContent-Length: -1\r\n\r\n",
        b"GET /%ff?name[]=\xff\xfe HTTP/1.0\r\n\r\n",
    ],
)
def test_what_is_no_request(
    request_line: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is answered or dropped without a word in the log; so is a client that resets the connection."""
    monkeypatch.setattr(metrics_server, "REQUEST_TIMEOUT_S", 0.3)
    with MetricsServer(claim_set, state_now, "127.0.0.1", 0) as server:
        address = ("127.0.0.1", server.port or 0)
        with socket.create_connection(address, timeout=60) as client:
            client.sendall(request_line)
            try:
                while client.recv(65536):
                    pass
            except ConnectionResetError:
                pass
        with socket.create_connection(address, timeout=60) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(request_line)
        assert b"pinproof_window_seconds" in scraped(server.port)
    assert capfd.readouterr() == ("", "")
