"""A real Prometheus scrapes a real ``pinproof watch``: what is right, what is broken, and what cannot be seen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.membership_lab import cpuset
from tests.integration.probe_lab import BURSTS, cgroup, join, wait_for
from tests.integration.prometheus_server import Prometheus, free_port, prometheus
from tests.monitoring import DASHBOARD, FLEET_DASHBOARD, RULES, dashboard_queries
from tests.programs import needed
from toolkit.host import cgroupfs
from toolkit.model.cpuset import CpuSet

ONLINE = sorted(os.sched_getaffinity(0))
IN, OUT = ONLINE[0], ONLINE[-1]
pytestmark = [
    pytest.mark.integration,
    pytest.mark.beside,
    pytest.mark.skipif(len(ONLINE) < 2, reason="an escape needs two CPUs"),
]
PLACE = f"/pinproof-prometheus-{os.getpid()}"
DEADLINE_S = 120.0
MAY_BE_EMPTY = ("pinproof_bpf_run_seconds_total", "pinproof_cfs_throttled_")
"""Kernel statistics are off; on a hybrid host this claim has no cgroup of the cpu controller, and so no periods."""


@pytest.fixture
def task() -> Iterator[int]:
    """A task in the claim's cgroup, on the claim's CPU, that the claim's CPUs do not hold."""
    with contextlib.ExitStack() as places:
        if not cgroupfs.detect().is_v2("cpuset"):
            places.enter_context(cpuset(PLACE, CpuSet.of([IN])))
        places.enter_context(cgroup(PLACE[1:]))
        busy = subprocess.Popen([sys.executable, "-c", BURSTS])
        try:
            os.sched_setaffinity(busy.pid, {IN})
            join(PLACE, busy.pid)
            yield busy.pid
        finally:
            busy.kill()
            busy.wait()


@contextlib.contextmanager
def watch(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """``pinproof watch`` in windows of one second, with a port and a file."""
    claims = folder / "claims.yaml"
    row = f'{{name: db, cgroup: {PLACE}, cpus: "{IN}", isolation: container}}'
    claims.write_text(f"apiVersion: pinproof/v1\nkind: Claims\nclaims:\n- {row}\n")
    command = [sys.executable, "-m", "toolkit", "watch", "--claims", str(claims), "--window", "1"]
    options = [
        "--metrics-detail",
        "claim",
        "--metrics-port",
        str(port),
        "--metrics-file",
        str(folder / "pinproof.prom"),
    ]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, *options, "--output", str(folder / "runs")], stdout=said, stderr=said, start_new_session=True
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_alert(server: Prometheus, name: str, state: str, **labels: str) -> None:
    """Wait until an alert with these labels is in this state."""

    def is_so() -> bool:
        return any(
            one["state"] == state and labels.items() <= one["labels"].items() for one in server.alerts().get(name, ())
        )

    wait_for(is_so, f"{name} {state} {labels}", DEADLINE_S)


def wait_for_value(server: Prometheus, expression: str) -> None:
    """Wait until a query finds something."""
    wait_for(lambda: bool(server.query(expression)), expression, DEADLINE_S)


def up(path: Path) -> float:
    """``pinproof_observer_up`` in the file."""
    families = text_string_to_metric_families(path.read_text())
    return next(sample.value for one in families for sample in one.samples if sample.name == "pinproof_observer_up")


def test_scraped_by_a_real_prometheus(task: int, tmp_path: Path) -> None:
    """A claim that holds raises no alert; an escape, a stopped observer and one that ended each raise theirs.

    Every query of the dashboard is answered, and with values.
    """
    port = free_port()
    with watch(tmp_path, port) as process, prometheus(tmp_path / "prometheus", port, RULES) as server:
        wait_for_value(server, 'pinproof_windows_total{outcome=~"passed|failed|undecided"} >= 1')
        wait_for_value(server, "pinproof_observer_up == 1")
        held = {"rule": "cpuset-containment", "subject": "db"}
        assert server.query('pinproof_verdict{rule="cpuset-containment",subject="db",pinproof_verdict="failed"} == 0')
        broken = server.alerts().get("PinproofClaimBroken", ())
        assert not [one for one in broken if held.items() <= one["labels"].items()]

        os.sched_setaffinity(task, {OUT})
        wait_for_alert(server, "PinproofClaimBroken", "firing", **held)
        wait_for_value(server, f'pinproof_out_of_set_seconds_total{{claim="db",cpu="{OUT}"}} > 0')
        # Two windows that failed: a rate needs two values.
        wait_for_value(server, 'pinproof_windows_total{outcome="failed"} >= 2')
        for query in dashboard_queries("1m", (DASHBOARD,)):
            wait_for(lambda query=query: bool(server.query(query)) or any(n in query for n in MAY_BE_EMPTY), query, 30)
        for query in dashboard_queries("1m", (FLEET_DASHBOARD,)):
            # Of a fleet in which no node is missing most are empty; an answer that is an error ends the test.
            server.query(query)
        by_class = "pinproof_last_window * on (instance, job) group_left (hardware) pinproof_environment_info"
        wait_for_value(server, f"sum by (hardware, pinproof_last_window) ({by_class}) > 0")

        assert up(tmp_path / "pinproof.prom") == 1
        process.send_signal(signal.SIGSTOP)
        wait_for_alert(server, "PinproofGone", "pending")
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: "PinproofGone" not in server.alerts(), "it is back", DEADLINE_S)
        wait_for_alert(server, "PinproofBlind", "firing", witness="masks")

        process.terminate()
        assert process.wait(60) == 1, (tmp_path / "said").read_text()
        wait_for_alert(server, "PinproofGone", "pending")
        wait_for_value(server, "absent(pinproof_observer_up)")
    text = (tmp_path / "pinproof.prom").read_text()
    assert up(tmp_path / "pinproof.prom") == 0
    said = subprocess.run(
        [needed("promtool", "prometheus"), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")
