"""``pinproof watch``: observe and judge cgroups that somebody else made; read-only towards them."""

from __future__ import annotations

import time
from pathlib import Path

import click

from probes.observer import Violation
from toolkit.claims_file import check_host, load_claims
from toolkit.cli.common import SECONDS, json_option, print_json, progress, runs_option, say, say_line
from toolkit.cli.ending import leave, remark, show_and_save, warn_of
from toolkit.host.topology import read_topology
from toolkit.model import names
from toolkit.model.serde import to_data
from toolkit.pipeline import execute, observe
from toolkit.pipeline.preflight import require_run
from toolkit.pipeline.record import recorded
from toolkit.pipeline.stopping import stop_on_signals
from toolkit.report.metrics import MetricsServer
from toolkit.report.table import render_table


@click.command("watch", short_help="Watch and judge existing cgroups.")
@click.option("--claims", "claims_path", type=click.Path(path_type=Path), required=True, help="Claims file (YAML).")
@click.option("--duration", type=SECONDS, help="Seconds to watch; without it until interrupted.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics on this port.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True, help="Address of the metrics server.")
@runs_option
@json_option
def command(
    claims_path: Path,
    duration: float | None,
    metrics_port: int | None,
    metrics_address: str,
    runs: Path,
    as_json: bool,
) -> None:
    """Watch cgroups that exist (any runtime: docker, podman, systemd, Slurm) against a claims file, read-only."""
    claims = load_claims(claims_path)
    topology = read_topology()
    check_host(claims, topology.online | topology.offline, str(claims_path))
    require_run()
    observe.check_claims(claims, str(claims_path))
    warn_of(runs)
    run_id = execute.new_run_id("watch")
    path = runs / run_id
    seen: set[tuple[str, int]] = set()

    def report(violation: Violation) -> None:
        if (violation.claim, violation.tid) in seen:
            return
        seen.add((violation.claim, violation.tid))
        say_line(
            f"{time.strftime('%H:%M:%S')} {violation.claim}: {violation.comm} ({violation.tid}) ran on CPU "
            f"{violation.cpu}, outside its set",
            err=True,
        )

    # Until all is said and saved: a second signal must not undo what the first one asked for.
    with stop_on_signals() as stopped:
        window = observe.Window(run_id=run_id, duration_s=duration, stopped=stopped)
        with observe.observation(claims, window, report) as opened:
            with (
                MetricsServer(claims, opened.snapshot, metrics_address, metrics_port),
                progress(duration or 1, "watching") as bar,
            ):
                opened.wait(duration, lambda passed: bar.to(min(duration, passed)) if duration else None)
            evidence = opened.close()
        done = recorded(path, claims=claims, evidence=evidence)

        def show() -> None:
            if as_json:
                print_json(to_data(done.result))
            else:
                say(render_table(done.result))

        code = show_and_save(show, done.save)
        if not as_json and not code:
            remark(f"\nRun saved in {names.from_path(path)}")
    leave(done.result.outcome, code)
