"""A private Prometheus of the Debian package: own configuration, data and port; no service."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.integration.probe_lab import wait_for
from tests.programs import needed


def free_port() -> int:
    """Return a TCP port of loopback that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Prometheus:
    """The running server, asked through its HTTP API."""

    def __init__(self, port: int) -> None:
        self.port = port

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None
        assert document["status"] == "success", document
        return document["data"]

    def ready(self) -> bool:
        """Whether it answers queries."""
        with contextlib.suppress(OSError, AssertionError):
            self.query("1")
            return True
        return False

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that an instant query finds."""
        data = self._get("/api/v1/query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(row["metric"], float(row["value"][1])) for row in data["result"]]

    def alerts(self) -> dict[str, list[dict[str, Any]]]:
        """Alert -> its instances, pending or firing."""
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in self._get("/api/v1/alerts")["alerts"]:
            found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found

    def targets(self) -> list[dict[str, Any]]:
        """What is scraped, with the last error."""
        active: list[dict[str, Any]] = self._get("/api/v1/targets")["activeTargets"]
        return active


@contextlib.contextmanager
def prometheus(folder: Path, target_port: int, rules: Path) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes a port of loopback twice a second and evaluates these rules as often."""
    program = needed("prometheus", "prometheus")
    folder.mkdir()
    port = free_port()
    scraped = {"job_name": "pinproof", "static_configs": [{"targets": [f"127.0.0.1:{target_port}"]}]}
    configuration = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [scraped],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [program, *options, f"--web.listen-address=127.0.0.1:{port}"],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        server = Prometheus(port)

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            return server.ready()

        try:
            wait_for(ready, "Prometheus answers", 60)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
