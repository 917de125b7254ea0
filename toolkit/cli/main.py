"""The ``pinproof`` command: loads each verb's file only when that verb is asked for."""

from __future__ import annotations

import importlib
import sys

import click

import toolkit
from toolkit.errors import PinproofError

VERBS: dict[str, str] = {
    "plan": "plan",
    "simulate": "simulate",
    "run": "run",
    "conformance": "conformance",
    "watch": "watch",
    "inject": "inject",
    "judge": "judge",
    "report": "report",
    "compare": "compare",
    "rules": "rules",
    "explain": "explain",
    "topology": "topology",
    "doctor": "doctor",
    "cleanup": "cleanup",
}
"""Verb -> module under :mod:`toolkit.cli` that defines a click command of the same name."""


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"toolkit.cli.{VERBS[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(toolkit.__version__, prog_name="pinproof")
@click.pass_context
def cli(context: click.Context) -> None:
    """Prove, on real hardware, that CPU and memory isolation holds."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line; errors that users can cause end in one line and their exit code."""
    try:
        # Without standalone mode click returns the code of `context.exit(code)`.
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        click.echo("pinproof: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        click.echo(f"pinproof: {error.format_message()}", err=True)
        sys.exit(2)
    except PinproofError as error:
        click.echo(f"pinproof: {error}", err=True)
        sys.exit(error.exit_code)
