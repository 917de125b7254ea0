"""Completion for shells, from the command line itself: files that ask no program when a key is pressed.

    python -m tools.completion DIRECTORY

They are written below DIRECTORY where each shell looks for them below ``/usr/share`` or ``/usr/local/share``; ``make
manual`` does so, and the wheel and the Debian package have them. click's own completion starts the program at each key,
which takes as long as the imports of a verb.

Source: shtab (PyPI), which makes them of an argparse parser and has a bridge from click.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import click
import shtab
from shtab.click import click2argparse

from toolkit.cli.main import cli
from toolkit.faults.registry import INJECTABLE
from toolkit.verbs import VERBS
from validators.registry import RULES

PLACES = {
    "bash": "bash-completion/completions/pinproof",
    "zsh": "zsh/site-functions/_pinproof",
    "fish": "fish/vendor_completions.d/pinproof.fish",
}
"""Shell -> where it looks for a program's completion, below the directory of shared files."""

WORDS = {
    ("explain", "rule"): [rule.id for rule in RULES],
    ("inject", "fault"): [fault.id for fault in INJECTABLE],
}
"""Verb and argument -> the words of which it takes one, where click does not know them."""


def parser() -> argparse.ArgumentParser:
    """Return the whole command line as argparse has it: for completion, not to parse with."""
    context = click.Context(cli, info_name="pinproof")
    commands: dict[str, click.Command] = {}
    for verb, about in VERBS.items():
        command = cli.get_command(context, verb)
        assert command is not None, verb
        commands[verb] = copy(command)
        commands[verb].help = about.does  # a line beside the word, not the text of --help
    loaded = click.Group("pinproof", commands=commands, params=cli.params)
    made: argparse.ArgumentParser = click2argparse(loaded)
    for verb, one in _subparsers(made).items():
        for action in one._actions:
            action.choices = WORDS.get((verb, action.dest), action.choices)
    return made


def _subparsers(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (one for one in of._actions if isinstance(one, argparse._SubParsersAction))
    return dict(found.choices)


def scripts() -> Iterator[tuple[str, str]]:
    """Yield each shell's place and its file."""
    for shell, place in PLACES.items():
        yield place, shtab.complete(parser(), shell=shell)


def main() -> None:
    """Write them."""
    for place, text in scripts():
        path = Path(sys.argv[1]) / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
