"""``pinproof watch``: observe and judge cgroups that somebody else made; read-only towards them."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from probes.observer import Violation
from toolkit import store
from toolkit.claims_file import check_host, load_claims
from toolkit.cli.common import (
    SECONDS,
    json_option,
    leave,
    print_json,
    progress,
    require_directory,
    runs_option,
    say,
    say_line,
)
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.host.topology import read_topology
from toolkit.model import names
from toolkit.model.claims import ClaimSet
from toolkit.model.serde import to_data
from toolkit.model.verdict import worst
from toolkit.pipeline import execute, observe
from toolkit.pipeline.preflight import require_run
from toolkit.report.metrics import MetricsServer
from toolkit.report.table import render_run
from validators.registry import judge


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
    require_directory(runs)
    require_cgroups(claims, str(claims_path))
    run_id = execute.new_run_id("watch")
    path = runs / run_id
    window = observe.Window(run_id=run_id, duration_s=duration)
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

    with stop_on_signals() as stopped, observe.observation(claims, window, report) as opened:
        start = time.monotonic()
        with (
            MetricsServer(claims, opened.snapshot, metrics_address, metrics_port),
            progress(duration or 1, "watching") as bar,
        ):
            while not stopped and (duration is None or time.monotonic() - start < duration):
                opened.poll(observe.TICK_S if duration is None else min(observe.TICK_S, duration))
                if duration is not None:
                    bar.to(min(duration, time.monotonic() - start))
        evidence = opened.close()
    store.save_run(path, claims=claims, evidence=evidence)
    saved = store.load_run(path)
    verdicts = judge(saved.claims, saved.evidence)
    store.save_result(path, verdicts, saved.evidence)
    if as_json:
        print_json(to_data(store.load_result(path)))
    else:
        say(render_run(saved.claims, saved.evidence, verdicts))
        say(f"\nRun saved in {names.from_path(path)}")
    sys.stdout.flush()
    leave(worst(verdict.outcome for verdict in verdicts))


def require_cgroups(claims: ClaimSet, where: str) -> None:
    """Refuse claims about cgroups that do not exist.

    :raises InputError: names the claim and the path.
    """
    hierarchy = cgroupfs.detect()
    for claim in claims.claims:
        if not cgroupfs.identity_dir(hierarchy, claim.cgroup).is_dir():
            raise InputError(
                where,
                f"claim {claim.name!r}: cgroup {claim.cgroup} does not exist below {hierarchy.unified}",
                "a cgroup that exists",
            )


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Turn SIGINT and SIGTERM into an entry of the list, so that what was seen is still judged and saved."""
    stopped: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
