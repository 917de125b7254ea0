"""Consecutive windows on the command line: the options for them, and how each, and what all come to, is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click

from toolkit.cli.common import SECONDS, print_json, print_json_line, say
from toolkit.cli.ending import Output, show_and_save
from toolkit.model.result import Result
from toolkit.model.serde import to_data
from toolkit.report.table import render_table, render_window
from toolkit.session.engine.consecutive import WINDOW_S, Judged
from toolkit.store import save_windows_result

window_option = click.option(
    "--window",
    "window_s",
    type=SECONDS,
    default=WINDOW_S,
    show_default=True,
    help="Seconds of one window; each window is judged and saved by itself.",
)
KEEP = 360
"""Three hours of windows of 30 s. A day of windows of a node with hundreds of containers is 6 to 8 GB, so these are at
most 1 GB; what failed is deleted last, and sums and worst windows are of all."""
keep_option = click.option(
    "--keep",
    type=click.IntRange(min=1),
    metavar="N",
    default=KEEP,
    show_default=True,
    help="Keep at most N windows on disk. Delete the oldest; delete passed windows before failed ones.",
)


class Shown(NamedTuple):
    """How windows are printed, and where to. :attr:`as_lines`: as JSON, a line for each window and one for all."""

    verbose: bool
    as_json: bool
    output: Output
    as_lines: bool = False

    def document(self, result: Result) -> None:
        """Print a result as JSON."""
        (print_json_line if self.as_lines else print_json)(to_data(result))


def print_window(judged: Judged, save: Callable[[Judged], None], shown: Shown) -> int:
    """Print a window that has ended, then save it. Returns as :func:`toolkit.cli.ending.attempt`."""
    result = judged.record.result

    def show() -> None:
        if not judged.alone:
            # With --json nothing but documents is on standard output.
            say(render_window(judged.number, result), err=shown.as_json)
            if shown.as_lines:
                shown.document(result)
        elif shown.as_json:
            shown.document(result)
        else:
            say(render_table(result, verbose=shown.verbose))

    return show_and_save(lambda: shown.output.show(show), lambda: save(judged))


def print_sums(result: Result, path: Path, shown: Shown) -> int:
    """Print the sums of all windows and save them. :param path: of the run."""

    def show() -> None:
        if shown.as_json:
            shown.document(result)
        else:
            say("\n" + render_table(result, verbose=shown.verbose))

    return show_and_save(lambda: shown.output.show(show), lambda: save_windows_result(path, result))
