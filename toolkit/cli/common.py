"""What several verbs share: options and output."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import click

from toolkit.errors import InputError
from toolkit.model.runtimes import CGROUPFS, RUNTIMES
from toolkit.report.text import printable, printable_lines
from toolkit.text.names import from_path


class Seconds(click.FloatRange):
    """A finite number of seconds; a range alone would accept NaN."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number; ends with a usage error where it is none."""
        try:
            finite = math.isfinite(float(value))
        except ValueError:
            finite = False
        if not finite:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        number = super().convert(value, param, ctx)
        assert isinstance(number, float)
        return number


SECONDS = Seconds(min=0.1, max=366 * 86_400)
runtime_option = click.option(
    "--runtime",
    type=click.Choice(tuple(RUNTIMES)),
    default=CGROUPFS,
    show_default=True,
    help="Runtime that makes the containers.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Give the reason of every verdict, also where it passed or was skipped."
)
live_node_option = click.option(
    "--on-live-node",
    is_flag=True,
    help="Run even if the node is in use (a kubelet, pods, jobs); load only CPUs that no workload owns.",
)
RUNS_VARIABLE = "PINPROOF_RUNS"


def runs_place() -> Path:
    """Return where runs are saved unless told otherwise: nothing piles up where a user happens to stand."""
    named = os.environ.get(RUNS_VARIABLE)
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/pinproof/runs")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / "pinproof/runs"


runs_option = click.option(
    "--output",
    "runs",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=runs_place,
    show_default=f"${RUNS_VARIABLE}, else /var/lib/pinproof/runs",
    help="Directory that receives what is saved; `pinproof runs` lists it.",
)


def print_json(value: Any) -> None:
    """Print a JSON document on standard output."""
    from toolkit.model.serde import printable_json  # not at the top: pydantic is half of the time of `--help`

    click.echo(printable_json(json.dumps(value, indent=2, ensure_ascii=False)))


def print_json_line(value: Any) -> None:
    """Print one as a line of its own."""
    from toolkit.model.serde import printable_json

    click.echo(printable_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Put the file's path before what is wrong in it, where the place alone does not name the file."""
    try:
        yield
    except InputError as error:
        text = str(error)
        raise InputError(str(path), text.removeprefix(f"{path}: ")) from None


HEADS = {"Failed": "red", "Undecided": "yellow", "Passed": "green"}
"""Lines of a report that are nothing but an outcome."""


def say(text: str, *, err: bool = False) -> None:
    """Print text; names from elsewhere in it cannot steer the terminal.

    A standard error that cannot be written (a full disk, a terminal that is gone) stops nothing.
    """
    with suppress(OSError) if err else nullcontext():
        click.echo(coloured(printable_lines(text), err=err), err=err)


def coloured(text: str, *, err: bool = False) -> str:
    """Colour the heads of what failed, passed or is undecided, where the stream is a terminal and NO_COLOR is not set.

    :param text: safe for a terminal already.
    """
    if os.environ.get("NO_COLOR") or not (sys.stderr if err else sys.stdout).isatty():
        return text
    lines = text.split("\n")
    return "\n".join(click.style(line, fg=HEADS[line], bold=True) if line in HEADS else line for line in lines)


_CALLED: dict[str, str] = {}
"""Directories of this process's own -> what a user calls the archive that was unpacked there."""


@contextmanager
def called(folder: Path, name: Path) -> Iterator[None]:
    """Until the block ends, lines on standard error name an archive where they would name its temporary directory."""
    _CALLED[from_path(folder)] = from_path(name)
    try:
        yield
    finally:
        del _CALLED[from_path(folder)]


def say_line(text: str, *, err: bool = False) -> None:
    """Print one line; names from elsewhere in it cannot make it two. Else as :func:`say`."""
    # The innermost first: a packed run lies in the directory of a bundle.
    for folder, name in reversed(_CALLED.items() if err else ()):
        text = text.replace(folder, name)
    with suppress(OSError) if err else nullcontext():
        click.echo(printable(text), err=err)


class Progress:
    """A progress bar on standard error; silent where that is no terminal, or no longer one (a hangup)."""

    def __init__(self, length: float, label: str) -> None:
        self._bar = click.progressbar(
            length=max(1, round(length * 10)),
            label=label,
            # click before 8.2 cannot hide it: without a terminal it is drawn where nothing is read.
            file=sys.stderr if sys.stderr.isatty() else io.StringIO(),
            item_show_func=lambda item: item or "",
        )
        self._done = 0

    def __enter__(self) -> Progress:
        with suppress(OSError):
            self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        with suppress(OSError):
            self._bar.__exit__(*error)

    def to(self, position: float, item: str | None = None) -> None:
        """Move to a position (in units of the length), naming what is being done."""
        steps = max(0, round(position * 10) - self._done)
        self._done += steps
        with suppress(OSError):
            self._bar.update(steps, item)


@contextmanager
def progress(length: float, label: str) -> Iterator[Progress]:
    """Show a progress bar while the block runs."""
    with Progress(length, label) as bar:
        yield bar
