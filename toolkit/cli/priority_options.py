"""The options of a watch's own priority, as one argument ``priority``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from toolkit.host.priority import NICE, REALTIME, Priority

_NICE = click.option(
    "--nice",
    type=click.IntRange(NICE[0], NICE[-1]),
    metavar="N",
    help="Niceness of the watch's own threads, from -20 (before others) to 19. A watch that waits for a CPU does not "
    "see masks and files in time, and what they should show is undecided then.",
)
_REALTIME = click.option(
    "--rt",
    "realtime",
    type=click.IntRange(REALTIME[0], REALTIME[-1]),
    metavar="N",
    help="Real-time priority of the watch's own threads (SCHED_RR, 1 to 99): before every task that has none. It takes "
    "as much CPU time as without.",
)


def priority_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a verb both options."""

    @functools.wraps(command)
    def with_priority(nice: int | None, realtime: int | None, **words: Any) -> None:
        if nice is not None and realtime is not None:
            raise click.UsageError("give one of --nice and --rt: niceness means nothing to a real-time task")
        command(priority=Priority(nice=nice, realtime=realtime), **words)

    return _NICE(_REALTIME(with_priority))
