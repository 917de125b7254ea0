"""One file that holds a whole page: text, pictures, style, and the program that lets them be looked at closely.

Every value that a template prints passes :func:`_shown`: names of strangers are one printable line each, and jinja
escapes them; a value that a template does not know is an error. The page states in its Content-Security-Policy that
nothing may be fetched, and that only the style and the program of this package run, each by its SHA-256.
Source: Content Security Policy Level 3 ("hash-source", "meta element"); WCAG 2.2 (1.4.1, 1.4.10, 2.1.1).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from toolkit.model.verdict import Outcome
from toolkit.text.names import printable
from toolkit.text.wording import brief

MARKS = {
    "passed": "✔", "same": "=", "better": "▲", "waived": "≈", "failed": "✘", "worse": "▼", "undecided": "?",
    "suspect": "?", "skipped": "-",
}  # fmt: skip
"""What stands beside the word of an outcome; every other outcome of a node has ``!``."""
BADGES = {"passed": "caught", "failed": "not noticed"}
"""What is said of a promise that was broken on purpose, by the outcome of that control."""
MAX_REASON = 1_200
"""Characters of a reason; the whole one is in ``result.json``."""
_WORDS = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")
"""Of a command whose names are quoted: a line of it ends between two."""
_PARTS = files("toolkit.report.html")


def read_part(*names: str) -> str:
    """Return a file of this package: a template, a style, a program."""
    return _PARTS.joinpath(*names).read_text(encoding="utf-8")


def page(template: str, *, title: str, programs: Sequence[str] = (), **values: Any) -> str:
    """Return a page. :param programs: of ``assets``, beside ``page.js`` and those that they need."""
    script = "\n".join(map(_program, (*programs, "page.js")))
    style = "\n".join(
        read_part("assets", *names) for names in ([("uplot", "uPlot.min.css")] if UPLOT in programs else [])
    )
    style += read_part("assets", "page.css")
    return _environment().get_template(template).render(
        title=title, script=_own(script), style=_own(style), policy=_policy(script, style), **values
    )  # fmt: skip


UPLOT = "uplot/uPlot.iife.min.js"
"""uPlot 1.6.32 of Leon Sorokin, as its package on npm has it; its licence (MIT) stands before it in every page."""


def _program(name: str) -> str:
    text = read_part("assets", *PurePosixPath(name).parts)
    if name != UPLOT:
        return text
    _, _, program = text.partition("*/")  # the address of its repository: a page names no place elsewhere
    return f"/* uPlot 1.6.32\n{read_part('assets', 'uplot', 'LICENSE')}*/{program}"


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def data(value: object) -> Markup:
    """Return JSON that a ``script`` element can hold: no character of it ends the element or is no text."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return _own(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def ticked(text: str) -> Markup:
    """Return a sentence with what stands between backticks, names, as code."""
    plain, *others = str(escape(printable(text))).split("`")
    names, rest = others[::2], others[1::2]
    ended = "".join(f"<code>{name}</code>{after}" for name, after in zip(names, rest, strict=False))
    cut_off = "".join(f"`{name}" for name in names[len(rest) :])
    return _own(plain + ended + cut_off)  # escaped above


def _own(text: str) -> Markup:
    """Mark a text of this package, or one without any character of markup, as what it is."""
    return Markup(text)  # noqa: S704


@cache
def _environment() -> Environment:
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(lambda name: read_part("templates", name)),
    )
    made.globals["mark"] = mark
    made.globals["marks"] = MARKS
    made.globals["caught"] = BADGES
    made.filters["data"] = data
    made.filters["ticked"] = ticked
    made.filters["words"] = _WORDS.findall
    made.filters["n"] = lambda value: f"{value:,}"
    made.filters["time"] = lambda ns: brief(ns) if ns else "-"
    made.filters["when"] = _when
    made.filters["ms"] = lambda ms: f"{ms / 1e3:.1f} s" if ms >= 10_000 else f"{ms:.0f} ms"
    return made


class Step(NamedTuple):
    """What can be done next. :param why: what it is good for."""

    command: str
    why: str


def explained(rules: Iterable[str], most: int) -> list[Step]:
    """Return the steps that explain rules, each once."""
    why = "what a rule judges, with which tolerance, and how to break it on purpose"
    return [Step(f"pinproof explain {rule}", why) for rule in list(dict.fromkeys(rules))[:most]]


def _when(text: str) -> str:
    """Return a moment as people write it, to the second."""
    zoned = text.removesuffix("Z").removesuffix("+00:00")
    return text if zoned == text or len(zoned) < 19 else f"{zoned[:10]} {zoned[11:19]} UTC"


def cut(text: str) -> str:
    """Return a reason that is no flood."""
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}… ({len(text)} characters)"


def mark(outcome: str | Outcome) -> str:
    """Return the sign of an outcome: colour never says it alone."""
    return MARKS.get(str(outcome), "!")


def _shown(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return printable(str(value)) if isinstance(value, str) else value
