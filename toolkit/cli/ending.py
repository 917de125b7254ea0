"""How a verb ends: results are printed, then saved, even if one of the two fails; and which exit code wins."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from toolkit.cli.common import say
from toolkit.disk import why_not_writable, write_output
from toolkit.errors import HostUnsupportedError, InputError, PinproofError
from toolkit.report.text import printable, printable_lines

if TYPE_CHECKING:
    from toolkit.model.verdict import Outcome

NO_READER = 128 + signal.SIGPIPE
DEFECT = 70
"""EX_SOFTWARE of sysexits(3); never 1, which means that isolation failed."""
_FAILED, _UNDECIDED, _PASSED = 1, 3, 0
"""As :func:`toolkit.model.verdict.exit_code` says, which a test holds: to import it is half of the time of `--help`."""
_ORDER = (_PASSED, _UNDECIDED, InputError.exit_code, HostUnsupportedError.exit_code)


def worse(*codes: int) -> int:
    """Return the exit code that says most: 1 (something failed, which no error undoes), then others from the top:
    a defect (70), stopped by a signal (128 and more), 4 (the host cannot), 2 (input, or a place that cannot be
    written), 3 (undecided), 0.
    """

    def rank(code: int) -> tuple[int, int]:
        if code == _FAILED:
            return 3, 0
        if code in _ORDER:
            return 0, _ORDER.index(code)
        return (1, code) if code >= 128 else (2, code)

    return max(codes, key=rank, default=_PASSED)


def leave(outcome: Outcome, *codes: int) -> None:
    """End the process with the exit code of an outcome, or the worst of the other codes."""
    from toolkit.model.verdict import exit_code

    sys.exit(worse(exit_code(outcome), *codes))


def complain(message: str, *, verbatim: bool = False) -> None:
    """Report an error on one line of standard error, safe for a terminal; a closed standard error stops nothing.

    :param verbatim: a line end in it belongs to a name.
    """
    with suppress(OSError):
        click.echo(f"pinproof: {printable(message if verbatim else ' '.join(message.split()))}", err=True)


def reported(error: Exception) -> int:
    """Report any error, those that a user can cause on one line; return its exit code."""
    if isinstance(error, PinproofError):
        complain(str(error), verbatim=isinstance(error, InputError))
        return error.exit_code
    if isinstance(error, OSError):
        # The verbs turn expected errors into InputError; what is left is a full disk behind standard output.
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else "output: "
        complain(where + (error.strerror or str(error)), verbatim=True)
        return InputError.exit_code
    if isinstance(error, MemoryError):
        complain("not enough memory")
        return HostUnsupportedError.exit_code
    with suppress(OSError):
        click.echo(printable_lines("".join(traceback.format_exception(error))), err=True)
    complain("this is a defect of pinproof, not a result about the machine: please report it")
    return DEFECT


def attempt(act: Callable[[], object]) -> int:
    """Call ``act``; return 0, or the exit code of its error, which has been reported on one line."""
    try:
        act()
    except PinproofError as error:
        return reported(error)
    return _PASSED


def show_and_save(show: Callable[[], None], save: Callable[[], object]) -> int:
    """Print, then save even if printing fails (that error is raised afterwards). Returns as :func:`attempt`."""
    try:
        show()
        sys.stdout.flush()
    finally:
        code = attempt(save)
    return code


class Output:
    """Standard output of what goes on for days: where it cannot be written any more that is said once, on standard
    error, and everything else goes on. :attr:`code` is the exit code of it: 141 where its reader left.
    """

    def __init__(self) -> None:
        self.code = _PASSED

    def show(self, show: Callable[[], None]) -> None:
        """Print, unless it failed before."""
        if self.code:
            return
        try:
            show()
            sys.stdout.flush()
        except OSError as error:
            self.code = NO_READER if isinstance(error, BrokenPipeError) else InputError.exit_code
            drop_unwritten(sys.stdout, 1)
            complain(f"output: {error.strerror or error} (going on: windows are judged and saved)")


def remark(text: str) -> None:
    """Print a last line; a closed standard output is no error, as all results have been written (``| head``)."""
    try:
        say(text)
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write_or_print(path: Path, text: str) -> int:
    """Write text to a file, or print it if the file cannot be written. Returns as :func:`attempt`."""
    code = attempt(lambda: write_output(path, text))
    if code:
        click.echo(text, nl=False)
    return code


def warn_of(directory: Path, *, exists: bool = False) -> None:
    """Warn before the work begins that a directory cannot be written, as far as that is visible; the work goes on."""
    problem = why_not_writable(directory, exists=exists)
    if problem is not None:
        complain(f"warning: {problem} (going on: what is judged will be printed)")


def warn_of_cache() -> None:
    """Warn before the probes are loaded that they are compiled anew, because what is kept might be another's."""
    from probes import unit  # what it imports is needed by the verbs that observe alone

    problem = unit.strange(Path("/"))
    if problem:
        complain(f"warning: {problem}: {unit.UNUSED} (going on: they are compiled anew)")


def drop_unwritten(stream: IO[str], number: int) -> None:
    """Discard what cannot be written: Python would flush it at exit, fail again, and exit with 120, whatever was said.

    :param number: the stream's descriptor.
    """
    with suppress(OSError):
        stream.flush()
        return
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
