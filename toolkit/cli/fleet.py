"""``pinproof fleet``: many nodes in one answer."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from toolkit import presence
from toolkit.cli.common import json_option, print_json, progress, verbose_option
from toolkit.cli.ending import attempt, worse, write_or_print
from toolkit.cli.fleet_reading import cache_place, judged_again, read_all, source_digest
from toolkit.cli.html import html_option, write_page
from toolkit.errors import InputError
from toolkit.fleet.answer import GREEN, WORST_FIRST, FleetAnswer
from toolkit.fleet.hosts import Gathered, Host
from toolkit.fleet.policy import Policy, parse_policy
from toolkit.fleet.reading import Report, find
from toolkit.fleet.summary import answer_of
from toolkit.model.node_record import NodeOutcome
from toolkit.model.result import Result
from toolkit.model.serde import from_json, read_text, to_data
from toolkit.model.session import Session
from toolkit.report.fleet_formats import fleet_junit, fleet_markdown, fleet_textfile
from toolkit.report.fleet_parquet import saved, write_parquet
from toolkit.report.fleet_table import render_fleet
from toolkit.text.names import raw
from toolkit.verbs import VERBS

DAY_S = 86_400.0
MAX_POLICY_BYTES = 1_000_000
ACCEPTABLE = tuple(one for one in WORST_FIRST if one is not NodeOutcome.FAILED and one not in GREEN)
FILE_OPTION = click.Path(path_type=Path, dir_okay=False)


@click.command("fleet", short_help=VERBS["fleet"].does)
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--expect", metavar="HOSTS", help="Hosts that must report: a file with a name a line, or a,b,c.")
@click.option("--against", type=FILE_OPTION, metavar="LAST", help="An answer of before (--json): say what is new.")
@click.option(
    "--max-age", "days", type=click.FloatRange(min=0, min_open=True), default=7.0, show_default=True, metavar="DAYS",
    help="What is older is stale.",
)  # fmt: skip
@click.option(
    "--policy", type=FILE_OPTION, metavar="FILE", help="A gate's policy: its waivers hold here (docs/gate.md)."
)
@click.option(
    "--accept", "accepted", multiple=True, type=click.Choice([one.value for one in ACCEPTABLE]), metavar="OUTCOME",
    help="Nodes of this outcome (but failed) do not change the exit code; may be given again.",
)  # fmt: skip
@click.option("--judge", is_flag=True, help="Judge all evidence again, on all CPUs, and trust no saved verdict.")
@click.option(
    "--jobs", type=click.IntRange(1), default=None, help="Processes that read and judge.  [default: the CPUs]"
)
@click.option(
    "--cache", type=click.Path(path_type=Path), default=cache_place, metavar="DIR",
    help="Where --judge keeps judgements, by SHA-256.  [default: /var/cache/pinproof/judged, or the user's]",
)  # fmt: skip
@click.option("--junit", type=FILE_OPTION, metavar="FILE", help="Write JUnit XML: a suite for each node.")
@click.option("--markdown", type=FILE_OPTION, metavar="FILE", help="Write Markdown of at most 60 KB.")
@click.option("--textfile", type=FILE_OPTION, metavar="FILE", help="Write metrics for node_exporter.")
@click.option(
    "--parquet", type=FILE_OPTION, metavar="FILE",
    help="Write a row per node, scenario, rule and subject (pip install 'pinproof[fleet]').",
)  # fmt: skip
@html_option
@verbose_option
@json_option
def command(
    results: tuple[Path, ...],
    expect: str | None,
    against: Path | None,
    days: float,
    policy: Path | None,
    accepted: tuple[str, ...],
    judge: bool,
    jobs: int | None,
    cache: Path,
    junit: Path | None,
    markdown: Path | None,
    textfile: Path | None,
    parquet: Path | None,
    html: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Give one answer about many nodes, from what lies below the folders RESULTS: sessions, watches, runs,
    bundles of these, and the records of a controller. Of each kind of job of a node the newest counts.

    Exit code: that of the worst node: 1 if one failed; 3 if none did, and one is anything but passed or waived, which
    includes stale ones and expected ones that never reported (--accept leaves an outcome out of this); 2 if there is
    nothing to read.
    """
    expected = None if expect is None else hosts_named(expect)
    last = None if against is None else _last(against)
    now_s = time.time()
    told = Policy() if policy is None else _policy(policy, now_s)
    gathered = _gathered(results, expected, judge=judge, cache=cache, jobs=jobs or len(os.sched_getaffinity(0)))
    answer, hosts = answer_of(
        gathered,
        expected=expected,
        last=last,
        now_s=now_s,
        max_age_s=days * DAY_S,
        policy=told,
        accepted=[NodeOutcome(one) for one in accepted],
    )
    if as_json:
        print_json(to_data(answer))
    else:
        click.echo(render_fleet(answer, verbose=verbose), nl=False)
    codes = [
        write_or_print(path, text(answer, hosts))
        for path, text in ((junit, fleet_junit), (markdown, _markdown), (textfile, _textfile))
        if path is not None
    ]
    codes.append(write_page(html, lambda: _page(answer, html)))
    if parquet is not None:
        said = _judged(cache) if judge else saved
        codes.append(attempt(lambda: write_parquet(parquet, hosts, said)))
    sys.stdout.flush()
    sys.exit(worse(answer.code, *codes))


def _page(answer: FleetAnswer, path: Path | None) -> str:
    from toolkit.report.html.fleet import fleet_page

    return fleet_page(answer, "" if path is None else path.stem)


def _policy(path: Path, now_s: float) -> Policy:
    text = read_text(path, "a gate's policy", MAX_POLICY_BYTES)
    return parse_policy(text, str(path), datetime.fromtimestamp(now_s, UTC))


def _last(path: Path) -> FleetAnswer:
    return from_json(FleetAnswer, read_text(path, "an answer of pinproof fleet --json"), str(path))


def _markdown(answer: FleetAnswer, hosts: Sequence[Host]) -> str:
    del hosts
    return fleet_markdown(answer)


def _textfile(answer: FleetAnswer, hosts: Sequence[Host]) -> str:
    del hosts
    return fleet_textfile(answer)


def _judged(cache: Path) -> Callable[[Report], Session | Result]:
    def said(report: Report) -> Session | Result:
        return judged_again(Path(os.fsdecode(raw(report.path))), cache=cache, version=source_digest())[0]

    return said


def _gathered(
    results: Sequence[Path], expected: Sequence[str] | None, *, judge: bool, cache: Path, jobs: int
) -> Gathered:
    for path in results:
        if not os.path.lexists(path):
            raise InputError(str(path), "no such file or directory", "a folder of results")
    places = list(find(results))
    if not places and expected is None:
        where = ", ".join(str(path) for path in results[:3])
        raise InputError(
            where, "nothing to read", "session.json, result.json, a bundle or record.json below it, or --expect HOSTS"
        )
    gathered = Gathered()
    with progress(len(places), "judging" if judge else "reading") as bar:
        for one in read_all(places, judge=judge, cache=cache, jobs=jobs, progress=lambda done: bar.to(done)):
            gathered.add(one)
    return gathered


def hosts_named(text: str) -> tuple[str, ...]:
    """Return the hosts that ``--expect`` names: in a file, a name a line (``#`` begins a comment), or with commas.

    :raises InputError: none is named, or the file cannot be read.
    """
    path = Path(text)
    if presence.is_file(path) or "/" in text:
        lines = [line.partition("#")[0].strip() for line in read_text(path, "a file with a host a line").splitlines()]
    else:
        lines = [one.strip() for one in text.split(",")]
    names = tuple(dict.fromkeys(one for one in lines if one))
    if not names:
        raise InputError(f"--expect {text}", "no host", "at least one name")
    return names
