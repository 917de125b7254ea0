"""``pinproof watch``: observe and judge cgroups that pinproof did not make; read-only."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from probes.observer import Violation
from toolkit.cli.common import SECONDS, json_option, print_json, progress, runs_option, say, say_line, verbose_option
from toolkit.cli.ending import leave, remark, show_and_save, warn_of, worse
from toolkit.host.topology import read_topology
from toolkit.model import names
from toolkit.model.claims import ClaimSet
from toolkit.model.result import Result
from toolkit.model.serde import to_data
from toolkit.report.counters import Look
from toolkit.report.table import render_table, render_window
from toolkit.session import observe
from toolkit.session.consecutive import WINDOW_S, Judged
from toolkit.session.engine import session
from toolkit.session.preflight import require_run
from toolkit.session.rotation import Rotation
from toolkit.session.stopping import stop_on_signals
from toolkit.sources.claims_file import check_host, load_claims
from toolkit.store import new_run_id, save_windows_result


@click.command("watch", short_help="Watch and judge existing cgroups.")
@click.option("--claims", "claims_path", type=click.Path(path_type=Path), required=True, help="Claims file (YAML).")
@click.option("--duration", type=SECONDS, help="Seconds to watch; without it, until interrupted.")
@click.option(
    "--window",
    "window_s",
    type=SECONDS,
    default=WINDOW_S,
    show_default=True,
    help="Seconds of one window; each window is judged and saved by itself.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep at most N windows on disk: the oldest go, those that passed first, those that failed last.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics on this port.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True, help="Address of the metrics server.")
@runs_option
@verbose_option
@json_option
def command(
    claims_path: Path,
    duration: float | None,
    window_s: float,
    keep: int | None,
    metrics_port: int | None,
    metrics_address: str,
    runs: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Judge existing cgroups (docker, podman, systemd, Slurm, any runtime) by a claims file. Read-only.

    The watch is cut into consecutive windows without gaps. When a window ends it is judged, printed (one line if it
    passed, else with details) and saved. What goes wrong in one window does not affect the others.

    A run of one window is saved as DIR/RUN. A run of several is saved as DIR/RUN/window-000001 and so on, with their
    sums in DIR/RUN/result.json. With --keep N at most N of these directories stay; the sums and the worst windows are
    of all. SIGINT, SIGTERM and SIGHUP end the last window; it is judged like the others.

    Exit code: that of the worst window.
    """
    claims = load_claims(claims_path)
    topology = read_topology()
    check_host(claims, topology.online | topology.offline, str(claims_path))
    require_run()
    observe.check_claims(claims, str(claims_path))
    warn_of(runs)
    run_id = new_run_id("watch")
    path = runs / run_id
    codes: list[int] = []
    # Held until everything is printed and saved: a second signal must not interrupt what the first one asked for.
    with stop_on_signals() as stopped:
        window = observe.Window(run_id=run_id, duration_s=duration, stopped=stopped)
        with session(claims, window, _Violations()) as open_session:
            windows = open_session.consecutive(path, window_s=window_s, duration_s=duration)
            rotation = Rotation(path, keep, windows.sums)
            with (
                _served(claims, windows.look, metrics_address, metrics_port),
                progress(duration or 1, "watching") as bar,
            ):
                for judged in windows.windows(lambda passed: bar.to(min(duration, passed)) if duration else None):
                    codes.append(_print_window(judged, rotation.save, verbose=verbose, as_json=as_json))
                    codes = [worse(*codes)]
        if not judged.alone:
            codes.append(_print_sums(windows.result(), path, verbose=verbose, as_json=as_json))
        if not as_json and not any(codes):
            remark(f"\nRun saved in {names.from_path(path)}")
    leave(windows.outcome, *codes)


def _served(
    claims: ClaimSet, look: Callable[[], Look], address: str, port: int | None
) -> AbstractContextManager[object]:
    """Serve metrics if a port was asked for."""
    if port is None:
        return nullcontext()
    # Not at the top: most watches serve nothing, and need no HTTP server's modules.
    from toolkit.report.metrics import MetricsServer

    return MetricsServer(claims, look, address, port)


def _print_window(judged: Judged, save: Callable[[Judged], None], *, verbose: bool, as_json: bool) -> int:
    """Print a window that has ended, then save it. Returns as :func:`toolkit.cli.ending.attempt`."""
    result = judged.record.result

    def show() -> None:
        if not judged.alone:
            # With --json the one document is the only thing on standard output.
            say(render_window(judged.number, result), err=as_json)
        elif as_json:
            print_json(to_data(result))
        else:
            say(render_table(result, verbose=verbose))

    return show_and_save(show, lambda: save(judged))


def _print_sums(result: Result, path: Path, *, verbose: bool, as_json: bool) -> int:
    """Print and save the sums of all windows."""

    def show() -> None:
        if as_json:
            print_json(to_data(result))
        else:
            say("\n" + render_table(result, verbose=verbose))

    return show_and_save(show, lambda: save_windows_result(path, result))


class _Violations:
    """Reports on standard error which thread ran outside its set, once per window."""

    def __init__(self) -> None:
        self._window = 0
        self._seen: set[tuple[str, int]] = set()

    def __call__(self, violation: Violation) -> None:
        if violation.window > self._window:
            self._window = violation.window
            self._seen.clear()
        if (violation.claim, violation.tid) in self._seen:
            return
        self._seen.add((violation.claim, violation.tid))
        say_line(
            f"{time.strftime('%H:%M:%S')} {violation.claim}: {violation.comm} ({violation.tid}) ran on CPU "
            f"{violation.cpu}, outside its set",
            err=True,
        )
