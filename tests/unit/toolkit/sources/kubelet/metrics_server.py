"""A kubelet's metrics endpoint on loopback."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TLS = Path(__file__).parents[4] / "data/tls"
TOKEN = "s3cr3t"


class Endpoint(http.server.ThreadingHTTPServer):
    """What it answers can be changed at any time. :param token: what must be sent; empty: nothing."""

    daemon_threads = True
    text, token, asked = "", "", 0

    @property
    def address(self) -> str:
        """Where it is."""
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self.server_address[1]}/metrics"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Endpoint)
        server.asked += 1
        told = self.headers.get("Authorization", "")
        data = server.text.encode()
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", server.address)
        else:
            self.send_response(200 if not server.token or told == f"Bearer {server.token}" else 401)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: object) -> None:
        pass


@contextmanager
def metrics_server(text: str, *, token: str = "", tls: bool = False) -> Iterator[Endpoint]:
    """Serve this text."""
    with Endpoint(("127.0.0.1", 0), _Handler) as server:
        server.text, server.token = text, token
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def metrics(count: float, pool: float, **nodes: float) -> str:
    """What a kubelet answers, among other lines."""
    return (
        "# HELP kubelet_cpu_manager_exclusive_cpu_allocation_count [ALPHA] CPUs\n"
        "# TYPE kubelet_cpu_manager_exclusive_cpu_allocation_count gauge\n"
        f"kubelet_cpu_manager_exclusive_cpu_allocation_count {count:g}\n"
        f"kubelet_cpu_manager_shared_pool_size_millicores {pool:g}\n"
        + "".join(f'kubelet_cpu_manager_allocation_per_numa{{numa_node="{n[1:]}"}} {v:g}\n' for n, v in nodes.items())
        + 'kubelet_running_pods 7\nkubernetes_build_info{git_version="v1.36.2"} 1\n'
    )
