"""The ``pinproof`` command; a verb's module is imported only when that verb is called."""

from __future__ import annotations

import gc
import importlib
import io
import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click

import toolkit
from toolkit.cli.ending import DEFECT, NO_READER, complain, drop_unwritten, reported, worse
from toolkit.errors import HostUnsupportedError, InputError
from toolkit.report import page
from toolkit.text.names import printable
from toolkit.verbs import VERBS


class _ReaderLeftError(Exception):
    """Standard output was closed by its reader. click would exit with 1 on EPIPE, which means ``failed`` here."""


class _InterruptedError(Exception):
    """Ctrl-C, or another signal that came again. click would print an empty line first, even without a terminal."""

    def __init__(self, stop: BaseException) -> None:
        self.number = getattr(stop, "number", signal.SIGINT)


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = f"toolkit.cli.{cmd_name}"
        # What is imported already is asked for again: by click for each call, by tests a thousand times.
        with nullcontext() if module in sys.modules else _nothing_is_garbage():
            command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does it, but without importing every verb for a line that :mod:`toolkit.verbs` has."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.does) for name, verb in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib  # not at the top: a refusal alone needs it

            near = difflib.get_close_matches(args[0].lower(), list(VERBS), n=3, cutoff=0.6)
            if near:
                raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderLeftError from None
        except (KeyboardInterrupt, click.Abort) as stop:
            raise _InterruptedError(stop) from None


@contextmanager
def _nothing_is_garbage() -> Iterator[None]:
    """Import without looking for garbage: a tenth of a start goes into finding that all that was made is in use.

    It stays in use, so it is not looked through later either.
    """
    looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if looking:
            gc.enable()


def _print_versions(context: click.Context) -> None:
    from probes.compiler import version  # loads the compiler, which nothing else here needs

    try:
        compiler = version()
    except HostUnsupportedError as error:
        compiler = f"no bcc: {error}"
    kernel = os.uname()
    click.echo(f"pinproof, version {toolkit.__version__}")
    click.echo(printable(f"{compiler}; Linux {kernel.release} ({kernel.machine}); Python {platform.python_version()}"))
    context.exit()


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _option, asked: _print_versions(context) if asked else None,
    help="Show the version, and those of the compiler and the kernel that the probes rest on.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Prove, on real hardware, that CPU and memory isolation holds."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line; an error that a user can cause ends in one line and its exit code."""
    try:
        sys.exit(_code())
    finally:
        drop_unwritten(sys.stderr, 2)


def _code() -> int:
    """Call the verb and return the exit code."""
    code = 0
    try:
        mend_streams()
        if sys.stdout.isatty():
            page.fit_terminal()
        code = _called()
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except (_InterruptedError, click.Abort, KeyboardInterrupt) as stop:
        number = getattr(stop, "number", signal.SIGINT)
        if sys.stderr.isatty():
            click.echo(err=True)  # After the terminal's ^C.
        how = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
        code = _end(how, 128 + number)
    except click.ClickException as error:
        code = _end(error.format_message(), InputError.exit_code)
    except (_ReaderLeftError, BrokenPipeError):
        code = worse(code, _quiet())
    except Exception as error:
        if isinstance(error, OSError):
            drop_unwritten(sys.stdout, 1)
        code = worse(code, reported(error))
    return code


def _called() -> int:
    try:
        # Without standalone mode click returns the code of `context.exit(code)`.
        return cli.main(standalone_mode=False) or 0
    except SystemExit as stop:  # how a verb ends with a verdict
        return stop.code if isinstance(stop.code, int) else DEFECT


def mend_streams() -> None:
    """Make every write to a standard stream possible: a closed one becomes /dev/null, other characters are escaped."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            # open() takes the lowest free number: without this a later file could become a child's standard output.
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # \uXXXX is also what JSON reads back as the character.
            stream.reconfigure(errors="backslashreplace")


def _end(message: str, code: int, *, verbatim: bool = False) -> int:
    """Report the reason on one line, safe for a terminal. :param verbatim: a line end in it is part of a name."""
    complain(message, verbatim=verbatim)
    return code


def _quiet() -> int:
    """End as a program that SIGPIPE kills: the reader of standard output is gone (``| head``)."""
    drop_unwritten(sys.stdout, 1)
    return NO_READER
