"""A registry with one image, on this machine's own address: for a runtime that can only pull.

Source: https://github.com/opencontainers/distribution-spec/blob/main/spec.md ("Pull"), image-spec ``manifest.md``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.integration.sleeper_image import Image

OCI = "application/vnd.oci.image"


@contextlib.contextmanager
def registry(image: Image) -> Iterator[str]:
    """Serve an image under every name. :returns: host and port."""
    parts = {digest(data): data for data in (image.config, image.layer)}
    manifest = _manifest(image)

    class Handler(BaseHTTPRequestHandler):
        """Answers with blobs by their digests, and with the manifest by every other name."""

        def do_GET(self) -> None:
            """Answer with what is asked for."""
            data = parts.get(self.path.rpartition("/")[2]) if "/blobs/" in self.path else manifest
            self.send_response(200 if data is not None else 404)
            kind = f"{OCI}.manifest.v1+json" if data is manifest else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data or b"")

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def digest(data: bytes) -> str:
    """Return how a registry names data."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _manifest(image: Image) -> bytes:
    described = {
        name: {"mediaType": f"{OCI}.{kind}", "digest": digest(data), "size": len(data)}
        for name, kind, data in (
            ("config", "config.v1+json", image.config),
            ("layer", "layer.v1.tar", image.layer),
        )
    }
    document = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": described["config"],
        "layers": [described["layer"]],
    }
    return json.dumps(document).encode()
