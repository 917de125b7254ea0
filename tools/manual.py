"""Manual pages, from the command line itself: ``pinproof.1`` and one page a verb, ``pinproof-watch.1``.

    python -m tools.manual DIRECTORY

They are written below ``DIRECTORY/man/man1``; ``make manual`` does so, and the wheel and the Debian package have them.
The date in them is ``SOURCE_DATE_EPOCH``, without it that of today.

Source: man-pages(7), man(7); lexgrog(1) for the line of NAME.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path

import click

import toolkit
from toolkit.cli.common import RUNS_VARIABLE
from toolkit.cli.main import cli
from toolkit.errors import EXIT_CODES
from toolkit.verbs import VERBS, Need
from tools.readme import PRIVILEGES

PROGRAM = "pinproof"
WIDTH = 78
"""Characters of a line of source; what a reader sees is filled anew."""
FILES = (
    ("/var/lib/pinproof/runs", "What root's runs saved. Of other users: ~/.local/state/pinproof/runs."),
    ("/var/cache/pinproof", "Programs that were compiled for this kernel. Of user N: /var/cache/pinproof-N."),
    ("/run/pinproof", "What a killed run has to put back, for `pinproof cleanup`. Of user N: /run/pinproof-N."),
)
ENVIRONMENT = (
    (RUNS_VARIABLE, "The directory of what is saved, where --output does not name one."),
    ("NO_COLOR", "If it is set and not empty, nothing is coloured."),
)
_OPTION = r"(?<![\w-])--?[a-z][a-z0-9-]*"
_MARKED = re.compile(rf"`([^`]+)`|({_OPTION})")


def _escaped(text: str) -> str:
    """Return text for roff: no escape of its own, and a hyphen that can be copied to a shell."""
    return text.replace("\\", "\\e").replace("-", "\\-")


def _prose(text: str) -> str:
    """Return running text: options and what stands between backticks are bold."""
    made, last = [], 0
    for found in _MARKED.finditer(text):
        made += [text[last : found.start()].replace("\\", "\\e"), f"\\fB{_escaped(found[1] or found[2])}\\fR"]
        last = found.end()
    return "".join(made) + text[last:].replace("\\", "\\e")


def _lines(text: str) -> Iterator[str]:
    """Yield lines of source, none of which roff takes for a request."""
    for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False):
        yield f"\\&{line}" if line[0] in ".'" else line


def _head(words: str) -> str:
    """Return an option as it is given: its names bold, what it takes slanted."""
    names = re.compile(r"-[-\w]+")
    fonts = ((word, "B" if names.fullmatch(word.rstrip(",")) else "I") for word in words.split())
    return " ".join(f"\\f{font}{_escaped(word)}\\fR" for word, font in fonts)


def _listed(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for head, text in rows:
        yield from (".TP", head, *_lines(_prose(text)))


def _description(command: click.Command) -> Iterator[str]:
    """Yield what a command's help says, a paragraph each."""
    for number, part in enumerate(cleandoc(command.help or "").split("\n\n")):
        if number:
            yield ".PP"
        yield from _lines(_prose(" ".join(part.split())))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = (one.get_help_record(context) for one in command.get_params(context) if isinstance(one, click.Option))
    yield from _listed((_head(head), text) for head, text in filter(None, records))


def _synopsis(command: click.Command, context: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    return f"\\fB{_escaped(context.command_path)}\\fR \\fI{_escaped(pieces)}\\fR"


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _subcommands(group: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a section for each command of a verb that has commands (``runs list``, ``runs rm``)."""
    for name, command in (group.commands if isinstance(group, click.Group) else {}).items():
        inner = _context(command, name, context)
        yield f".SH COMMAND {name.upper()}"
        yield _synopsis(command, inner)
        yield ".PP"
        yield from _description(command)
        yield from _options(command, inner)


def _begin(name: str, does: str, when: float) -> Iterator[str]:
    date = time.strftime("%Y-%m-%d", time.gmtime(when))
    yield '.\\" Written by python -m tools.manual from the command line.'
    yield f'.TH {_escaped(name).upper()} 1 "{date}" "{PROGRAM} {toolkit.__version__}" "User Commands"'
    yield ".SH NAME"
    yield from _lines(f"{_escaped(name)} \\- {does[0].lower()}{does[1:].rstrip('.')}")


def _end(see: Iterable[str]) -> Iterator[str]:
    """Yield the sections that all pages have."""
    yield ".SH EXIT STATUS"
    yield from _listed((f"\\fB{code}\\fR", f"{text[0].upper()}{text[1:]}.") for code, text in EXIT_CODES.items())
    yield ".SH FILES"
    yield from _listed((f"\\fI{_escaped(path)}\\fR", text) for path, text in FILES)
    yield ".SH ENVIRONMENT"
    yield from _listed((f"\\fB{name}\\fR", text) for name, text in ENVIRONMENT)
    yield ".SH SEE ALSO"
    *most, last = see
    yield from (f".BR {_escaped(name)} (1)," for name in most)
    yield f".BR {_escaped(last)} (1)"


def verb_page(verb: str, when: float) -> str:
    """Return the page of a verb. :param when: its date, in seconds since 1970."""
    context = _context(cli, PROGRAM)
    command = cli.get_command(context, verb)
    assert command is not None, verb
    inner = _context(command, verb, context)
    need = VERBS[verb].needs
    lines = [
        *_begin(f"{PROGRAM}-{verb}", VERBS[verb].does, when),
        *(".SH SYNOPSIS", _synopsis(command, inner)),
        *(".SH DESCRIPTION", *_description(command)),
        *(".SH OPTIONS", *_options(command, inner)),
        *_subcommands(command, inner),
        *(".SH PRIVILEGES", *_lines(_prose(_needed(need)))),
        *_end((PROGRAM,)),
    ]
    return "\n".join(lines) + "\n"


def _needed(need: Need) -> str:
    """Return what a verb needs as a sentence that stands alone."""
    words = PRIVILEGES[need].replace("the same", PRIVILEGES[Need.OBSERVE])
    words = words.replace("the capabilities below", "`CAP_BPF`, `CAP_PERFMON` and `CAP_DAC_OVERRIDE`")
    return f"{words[0].upper()}{words[1:]}."


def main_page(when: float) -> str:
    """Return the page of the program. :param when: its date, in seconds since 1970."""
    context = _context(cli, PROGRAM)
    lines = [
        *_begin(PROGRAM, cli.help or "", when),
        *(".SH SYNOPSIS", _synopsis(cli, context)),
        ".SH DESCRIPTION",
        *_lines(
            "It computes what the Kubernetes resource managers promise, judges every context switch with eBPF and "
            "every thread's mask, and says `passed` only where no evidence is missing."
        ),
        *(".SH OPTIONS", *_options(cli, context)),
        ".SH COMMANDS",
        *_listed((f"\\fB{PROGRAM}\\-{name}\\fR(1)", verb.does) for name, verb in VERBS.items()),
        *_end(f"{PROGRAM}-{verb}" for verb in VERBS),
    ]
    return "\n".join(lines) + "\n"


def pages(when: float) -> dict[str, str]:
    """Return all pages by file name. :param when: their date, in seconds since 1970."""
    return {f"{PROGRAM}.1": main_page(when)} | {f"{PROGRAM}-{verb}.1": verb_page(verb, when) for verb in VERBS}


def main() -> None:
    """Write them."""
    folder = Path(sys.argv[1]) / "man/man1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
