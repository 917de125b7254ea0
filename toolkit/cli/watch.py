"""``pinproof watch``: observe and judge cgroups that pinproof did not make; read-only.

Claims come from a file, or from a source that is followed while windows go on
(:mod:`toolkit.session.following`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from toolkit.cli.common import SECONDS, progress, runs_option, say_line, verbose_option
from toolkit.cli.ending import Output, leave, remark, reported, warn_of, warn_of_cache, worse
from toolkit.cli.headings import under
from toolkit.cli.live_lines import EVERY_S as LINES_S
from toolkit.cli.live_lines import LiveLines, Say, events_on, show_line
from toolkit.cli.live_screen import live_screen, require_live
from toolkit.cli.node_options import node_options, refuse_those_of_a_kubelet
from toolkit.cli.observing_options import Observing, observing_options
from toolkit.cli.pod_options import pod_options
from toolkit.cli.priority_options import priority_options
from toolkit.cli.source_options import Chosen, source_options
from toolkit.cli.windows import Shown, keep_option, print_sums, print_window, window_option
from toolkit.host.allocator import give_memory_back
from toolkit.host.kept_files import KeptFiles
from toolkit.host.priority import Priority
from toolkit.host.topology import read_topology
from toolkit.model.claims import ClaimSet
from toolkit.model.verdict import Outcome
from toolkit.session.engine.checked import check_claims
from toolkit.session.engine.long_stage import Cut
from toolkit.session.engine.rotation import Rotation
from toolkit.session.engine.session import session
from toolkit.session.engine.stopping import stop_on_signals
from toolkit.session.engine.window import Window
from toolkit.session.following.follower import Follower
from toolkit.session.windows.counters import SessionState
from toolkit.session.windows.series import Detail
from toolkit.sources.chosen_pods import Choice, ChosenPods
from toolkit.sources.claims_file import check_host, load_claims
from toolkit.sources.followed_tool import FollowedTool
from toolkit.sources.gathered import hierarchy_of
from toolkit.sources.live_source import EVERY_S, LiveSource
from toolkit.sources.places import Places
from toolkit.store import new_run_id
from toolkit.text import names
from toolkit.text.wording import count
from toolkit.verbs import VERBS

ROOM = 3
"""Claims that there is room for, for each that is followed when the watch begins."""


LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"(?:([^:@\s]+|\[[0-9A-Fa-f:.]+(?:%\w+)?\]):)?(\d{1,5})", re.ASCII)


def place_to_serve(text: str) -> tuple[str, int]:
    """Return address and port of ``9469`` (of loopback), ``0.0.0.0:9469``, ``[::]:9469``.

    :raises click.BadParameter: it is neither.
    """
    found = _PLACE.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise click.BadParameter(f"'{names.printable(text)}' is no port of 0 to 65535, and no ADDRESS:PORT")
    return (found[1] or LOOPBACK).strip("[]"), int(found[2])


@dataclass(frozen=True, slots=True)
class Metrics:
    """Where metrics go, if anywhere, and what of. :param served_at: an address and a port."""

    served_at: tuple[str, int] | None = None
    file: Path | None = None
    detail: Detail = Detail.RULE

    def served(
        self, claims: Callable[[], ClaimSet], read_state: Callable[[], SessionState]
    ) -> AbstractContextManager[object]:
        """Serve them if a port was asked for, and write them if a file was, while the block runs."""
        if self.served_at is None and self.file is None:
            return nullcontext()
        # Not at the top: most watches serve nothing, and need no HTTP server's modules.
        from toolkit.report.metrics_file import exported

        address, port = self.served_at or (LOOPBACK, None)
        return exported(
            claims,
            read_state,
            address=address,
            port=port,
            file=self.file,
            complain=lambda line: say_line(line, err=True),
        )


@dataclass(frozen=True, slots=True)
class Manner:
    """How a watch goes on."""

    cut: Cut
    lines_every_s: float
    metrics: Metrics
    priority: Priority
    say: Say = show_line
    live: bool = False

    def lines(self, follower: Follower | None) -> LiveLines:
        """Return what reports a problem while it lasts."""
        return LiveLines(self.lines_every_s, follower.knows if follower else None, self.say)


HEADINGS = {
    "What is watched (one of these)": ("--claims", "--kubelet", "--podman", "--docker", "--systemd", "--slurm"),
    "How long, and what is kept": ("--duration", "--window", "--keep", "--output"),
    "What is printed": ("--live", "--verbose", "--json", "--lines-every"),
    "Metrics": ("--metrics-port", "--metrics-file", "--metrics-detail"),
    "More evidence, or less": ("--timeline", "--trace-syscalls", "--bpf", "--quiet-cpus"),
    "Of a kubelet's node": ("--namespace", "--pod", "--kubelet-version", "--kubelet-metrics"),
    "Where a node is otherwise than usual": (
        *("--root", "--kubelet-root", "--logs", "--cri", "--kubelet-token", "--kubelet-ca", "--read-every"),
        *("--nice", "--rt"),
    ),
}


@click.command("watch", cls=under(HEADINGS), short_help=VERBS["watch"].does)
@click.option("--claims", "claims_path", type=click.Path(path_type=Path), help="Claims file (YAML).")
@click.option("--kubelet", is_flag=True, help="Follow the pods of this machine's kubelet instead.")
@source_options
# A list of pods is of one moment: a watch follows the kubelet's own files and the runtime. What is observed is the
# kernel that runs: --root says where its /proc and /sys are seen from, and no other parts are put together.
@partial(node_options, without=("pods", "cgroup_root", "proc", "sys", "objects"))
@pod_options
@click.option("--duration", type=SECONDS, help="Seconds to watch; without it, until interrupted.")
@window_option
@keep_option
@click.option(
    "--read-every",
    "read_every_s",
    type=SECONDS,
    default=EVERY_S,
    show_default=True,
    help="With --kubelet or a tool: read it again after this many seconds even if no change was noticed. By default up "
    "to 10 s on a kubelet's node with hundreds of containers.",
)
@click.option(
    "--lines-every",
    "lines_every_s",
    type=SECONDS,
    default=LINES_S,
    show_default=True,
    help="Seconds between two live lines about a problem that lasts. Of tasks outside their CPUs the first is printed "
    "at once; the node, and tasks of others on exclusive CPUs, are looked at once in that time.",
)
@click.option(
    "--metrics-port",
    "served_at",
    callback=lambda _context, _option, text: None if text is None else place_to_serve(text),
    metavar="[ADDRESS:]PORT",
    help=f"Serve Prometheus metrics on this port, of {LOOPBACK} unless an address is given.",
)
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path),
    help="Keep the metrics in this file (*.prom) for node_exporter's textfile collector.",
)
@click.option(
    "--metrics-detail",
    type=click.Choice([str(one) for one in Detail]),
    default=str(Detail.RULE),
    show_default=True,
    help="What has series of its own: rules, so that a node has at most 250 whatever runs there, or claims and CPUs.",
)
@click.option(
    "--live",
    is_flag=True,
    callback=lambda _context, _option, asked: asked and require_live(),
    help="Show claims, CPUs and what runs where on the terminal of standard error, with keys to sort and filter "
    "(pip install 'pinproof[live]').",
)
@priority_options
@observing_options
@runs_option
@verbose_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON lines on standard output: a document for each window, one for all, and one for each event.",
)
def command(
    claims_path: Path | None,
    kubelet: bool,
    places: Places,
    chosen: tuple[Chosen, ...],
    choice: Choice,
    duration: float | None,
    window_s: float,
    keep: int,
    read_every_s: float,
    lines_every_s: float,
    served_at: tuple[str, int] | None,
    metrics_file: Path | None,
    metrics_detail: str,
    live: bool,
    priority: Priority,
    observing: Observing,
    runs: Path,
    verbose: bool,
    as_json: bool,
) -> None:
    """Judge existing cgroups (docker, podman, systemd, Slurm, any runtime) by a claims file, or follow a kubelet's
    node or one of these tools. Read-only.

    With --kubelet the promises are the node's own (state files, container runtime, configuration; as `pinproof claims
    --kubelet` prints them), and are followed: containers that appear are judged from then on, those that stop end,
    one that restarts is the same subject in its new cgroup, and a shared pool that shrinks or grows changes the claim.
    With --podman, --docker, --systemd or --slurm they are what that tool reports (as `pinproof claims` prints it), and
    are followed in the same way. A file of the tool's output can be given instead. A window in which the source does
    not answer is undecided, and so is a window with a container that cannot be watched.

    The watch is cut into consecutive windows without gaps; each is judged by itself when it ends, printed and saved.

    A run of one window is saved as DIR/RUN, one of several as DIR/RUN/window-000001 and so on, with their sums in
    DIR/RUN/result.json; at most N of these directories stay (--keep N). SIGINT, SIGTERM and SIGHUP end the last window;
    it is judged, too. Exit code: that of the worst window.
    """
    if kubelet + (claims_path is not None) + len(chosen) != 1:
        raise click.UsageError("give one of --claims, --kubelet, --podman, --docker, --systemd and --slurm")
    observing.begin()
    kept, output = KeptFiles(), Output()
    say = events_on(output) if as_json else show_line
    follower = (_of_kubelet if kubelet else _of_tool)(chosen, places, read_every_s, kept, choice, say)
    claims = None if claims_path is None else _claims_of_file(claims_path)
    refused = observing.require()
    priority.apply()
    give_memory_back()
    claims, path = _claims_at_first(follower, claims, claims_path), runs / new_run_id("watch")
    _warn(runs)
    # Held until everything is printed and saved: a second signal must not interrupt what the first one asked for.
    with stop_on_signals() as stopped, kept:
        cut_s = min(window_s, duration or window_s)
        window = Window(run_id=path.name, duration_s=duration, stopped=stopped, kept=kept, cut_s=cut_s)
        window = observing.ask(window, refused, say)
        window = window if follower is None else _following(window, follower, len(claims.claims))
        metrics, cut = Metrics(served_at, metrics_file, Detail(metrics_detail)), Cut(window_s=window_s, keep=keep)
        manner = Manner(cut, lines_every_s, metrics, priority, say, live)
        end = _watch(claims, follower, window, Shown(verbose, as_json, output, as_json), path, manner)
    leave(end[0], *end[1])


def _watch(
    claims: ClaimSet,
    follower: Follower | None,
    window: Window,
    shown: Shown,
    path: Path,
    manner: Manner,
) -> tuple[Outcome, list[int]]:
    """Observe window after window; return the worst outcome, and the exit codes of what was printed and saved.

    An error ends it once a window has been judged: it is reported, and the sums are those of the windows so far.
    """
    codes = list[int]()
    windows, alone = None, None
    try:
        with (
            session(claims, window, lines := manner.lines(follower)) as open_session,
            nullcontext() if follower is None else follower.waking(open_session.opened.wake),
        ):
            opened, now = open_session.opened, None if follower is None else follower.claims
            begin = partial(open_session.consecutive, path, now=now, detail=manner.metrics.detail)
            windows = begin(window_s=manner.cut.window_s, duration_s=window.duration_s)
            rotation = Rotation(path, manner.cut.keep, windows.sums)
            watched = count(len((now() if now else claims).claims), "claim")
            with (
                manner.metrics.served(now or (lambda: claims), windows.state),
                live_screen(manner.live) as screen,
                progress(window.duration_s or 1, "watching") as bar,
            ):
                manner.priority.apply()  # to the threads that read, too
                manner.say(f"armed: {watched}, windows of {manner.cut.window_s:g} s")

                def tick(passed: float) -> None:
                    if follower is not None:
                        follower.apply_reading(opened)
                    lines.tick(windows.state)
                    if screen is not None:
                        screen.tick(windows.state)
                    if window.duration_s:
                        bar.to(min(window.duration_s, passed))

                for judged in windows.windows(tick):
                    lines.ended(judged.record)
                    codes = [worse(*codes, print_window(judged, rotation.save, shown))]
                    alone = judged.alone
                    del judged  # While the next window is open, nothing of this one is needed.
    except Exception as error:
        if windows is None or alone is None:
            raise
        # What ends a watch takes nothing from the windows before: a day that failed must not end as a mere defect.
        codes.append(reported(error))
    assert alone is not None, "the last window is yielded"
    if not alone:
        codes.append(print_sums(windows.result(), path, shown))
    codes.append(shown.output.code)
    if not shown.as_json and not any(codes):
        remark(f"\nRun saved in {names.from_path(path)}")
    return windows.outcome, codes


def _warn(runs: Path) -> None:
    warn_of(runs)
    warn_of_cache()


def _following(window: Window, follower: Follower, claims: int) -> Window:
    """Let claims come and go in it. :param claims: how many there are when it begins."""
    window = replace(window, node_evidence=follower.node_evidence, ask=follower.ask)
    return replace(window, lenient=True, room=ROOM * claims)


def _of_kubelet(
    _chosen: tuple[Chosen, ...], places: Places, every_s: float, kept: KeptFiles, choice: Choice, say: Say
) -> Follower | None:
    # Not at the top: the others do without what a kubelet's node is read with, a fifth of the start.
    from toolkit.sources.kubelet.follow import KubeletSource

    source: LiveSource = KubeletSource(places, every_s, kept)
    return Follower(ChosenPods(source, choice) if choice else source, hierarchy_of(places.root), say)


def _of_tool(
    chosen: tuple[Chosen, ...], places: Places, every_s: float, _kept: KeptFiles, choice: Choice, say: Say
) -> Follower | None:
    """Return what follows a tool; ``None``: there is a claims file. :raises click.UsageError: options of a kubelet."""
    refuse_those_of_a_kubelet(places)
    if choice:
        raise click.UsageError(f"{'--namespace' if choice.namespaces else '--pod'} is for --kubelet")
    if not chosen:
        return None
    tool = FollowedTool(chosen[0].source, chosen[0].where, places, say, every_s)
    return Follower(tool, hierarchy_of(places.root), say)


def _claims_of_file(path: Path) -> ClaimSet:
    claims = load_claims(path)
    topology = read_topology()
    check_host(claims, topology.online | topology.offline, str(path))
    return claims


def _claims_at_first(follower: Follower | None, claims: ClaimSet | None, path: Path | None) -> ClaimSet:
    """Return what is promised when the watch begins: what the followed source says, or a file, whose cgroups exist."""
    if claims is None:
        assert follower is not None
        return follower.first()
    check_claims(claims, str(path))
    return claims
