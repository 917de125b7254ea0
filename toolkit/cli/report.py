"""``pinproof report``: what was saved as a table, a page, JSON, JUnit XML, TAP, or Sonobuoy's results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from toolkit.cli.answers import Answer, answer_in
from toolkit.cli.bundles import handed_on
from toolkit.cli.common import coloured, json_option, verbose_option
from toolkit.cli.compare import compared
from toolkit.cli.ending import attempt, worse, write_or_print
from toolkit.cli.html import html_option, read_session, write_page
from toolkit.cli.saved import judged_again
from toolkit.cli.sessions import is_session, located, opened
from toolkit.disk import write_output
from toolkit.fleet.values import Comparison
from toolkit.model.identity import Identity
from toolkit.model.result import Result
from toolkit.model.serde import printable_json
from toolkit.model.verdict import exit_code
from toolkit.packed import SUFFIX
from toolkit.report import page
from toolkit.report.cases import Group, group_of_run, groups_of_session, render_sonobuoy, render_tap
from toolkit.report.junit import render_junit
from toolkit.report.result import result_data
from toolkit.report.session_formats import render_session
from toolkit.report.table import render_table
from toolkit.session.saved import Judged, parts_of, shown_of
from toolkit.session.saved_session import Look
from toolkit.verbs import VERBS


def _json(result: Result) -> str:
    return printable_json(json.dumps(result_data(result), indent=2, ensure_ascii=False)) + "\n"


FORMATS = {"table": render_table, "json": _json, "junit": render_junit}
LISTS = ("tap", "sonobuoy")
"""Formats of other programs' lists of checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is asked for. :param base: a run or session before, for the page."""

    kind: str
    name: str
    verbose: bool
    html: Path | None
    base: Path | None
    perfetto: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered:
    """What came of it. :param codes: of the outcome, and of what could not be written."""

    text: str
    codes: tuple[int, ...]


@click.command("report", short_help=VERBS["report"].does)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice([*FORMATS, *LISTS]),
    default="table",
    show_default=True,
    help="What to render.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write to this file instead of standard output.")
@html_option
@click.option(
    "--base", type=click.Path(path_type=Path), help="With --html: a run or session before; what differs is shown, too."
)
@click.option(
    "--perfetto",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write a trace to this file, for https://ui.perfetto.dev or trace_processor: a run with all its windows, "
    "or every run of a session, the broken promises' too.",
)
@verbose_option
@json_option
def command(
    run: Path,
    kind: str,
    output: Path | None,
    html: Path | None,
    base: Path | None,
    perfetto: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Render RUN: a run, a packed run, a session or a bundle, as judge takes them; or a file with the answer of
    `compare --json` or `fleet --json`.

    It is judged again first, and the exit code is that of judge; of an answer it is that of the verb that gave it.

    Where the output file cannot be written the report is printed instead; the exit code is 2 unless something failed.
    """
    if base is not None and html is None:
        raise click.UsageError("--base is for the page: give --html, too (or use compare)")
    kind = "json" if as_json else kind
    asked = _Asked(kind=kind, name=run.name, verbose=verbose, html=html, base=base, perfetto=perfetto)
    place = located(run)
    answer = answer_in(place)
    with nullcontext() if output is None else page.plain():
        if answer is not None:
            found = _of_answer(answer, asked)
        else:
            with handed_on(place) as inside:
                found = _of_saved(inside, place, asked)
    code = 0
    if output is None:
        click.echo(coloured(found.text) if asked.kind == "table" else found.text, nl=False)
    else:
        code = write_or_print(output, found.text)
    sys.stdout.flush()
    sys.exit(worse(code, *found.codes))


def _of_answer(answer: Answer, asked: _Asked) -> _Rendered:
    if asked.kind not in answer.formats:
        raise click.UsageError(f"{asked.name} is an answer about many: its formats are {', '.join(answer.formats)}")
    if asked.perfetto is not None:
        raise click.UsageError(
            f"{asked.name} is an answer about many, without their evidence: `pinproof report RUN --perfetto FILE` "
            "writes the trace of one of them"
        )
    if asked.base is not None:
        raise click.UsageError("--base is of a run or a session: compare and fleet have said already what differs")
    code = write_page(asked.html, lambda: answer.html(asked.name))
    text = answer.formats[asked.kind](asked.verbose)
    return _Rendered(text=text, codes=(answer.code, code))


def _of_saved(place: Path, given: Path, asked: _Asked) -> _Rendered:
    kind = asked.kind
    # Before anything is judged: what cannot be compared ends it.
    before = _before(asked, given)
    if is_session(place):
        trace = _Traced(asked.perfetto)
        judged, drawn = read_session(place, draw=asked.html is not None, look=trace.look)
        code = worse(write_page(asked.html, lambda: drawn(before, _name(asked.base))), trace.write())
        if kind in LISTS:
            text = _list(kind, groups_of_session(judged.results), judged.session.identity)
        else:
            text = render_session(judged, kind, verbose=asked.verbose)
        return _Rendered(text=text, codes=(exit_code(judged.outcome), code))
    with opened(place) as folder:
        found = judged_again(folder)
        # While it is unpacked: of several windows another than the last may be drawn.
        code = write_page(asked.html, lambda: _page_of_run(found, asked, before))
        trace = _Traced(asked.perfetto)
        if trace.look is not None:
            trace.look("", found)
        code = worse(code, trace.write())
    result = found.result
    if kind in LISTS:
        text = _list(kind, [group_of_run(result, asked.name)], result.environment.identity)
    else:
        # The other formats hold every reason anyway.
        text = render_table(result, verbose=asked.verbose) if kind == "table" else FORMATS[kind](result)
    return _Rendered(text=text, codes=(exit_code(result.outcome), code))


class _Traced:
    """The trace of what is looked at, where one is asked for. :ivar look: ``None``: none is."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written: Callable[[], bytes] = bytes
        self.look: Look | None = None
        if path is not None:
            from toolkit.report.perfetto import Trace

            trace = Trace()
            self._written = trace.written

            def look(name: str, found: Judged) -> None:
                for part in parts_of(found):
                    run, result = part.judged.run, part.judged.result
                    trace.add(run.claims, run.evidence, result, group=name.removesuffix(SUFFIX), window=part.which)

            self.look = look

    def write(self) -> int:
        """Write it. Returns the exit code of what went wrong, which has been reported."""
        path = self._path
        return 0 if path is None else attempt(lambda: write_output(path, self._written()))


def _before(asked: _Asked, given: Path) -> Comparison | None:
    """Compare with what ``--base`` names. :raises InputError: the two cannot be compared."""
    return None if asked.base is None else compared([asked.base], [given])


def _page_of_run(found: Judged, asked: _Asked, before: Comparison | None) -> str:
    from toolkit.report.html.run import run_page, run_view

    view = run_view(found, shown_of(found), asked.name)
    return run_page(view, base=before, base_name=_name(asked.base))


def _name(path: Path | None) -> str:
    return "" if path is None else path.name


def _list(kind: str, groups: Sequence[Group], identity: Identity | None) -> str:
    return render_tap(groups) if kind == "tap" else render_sonobuoy(groups, "" if identity is None else identity.node)
