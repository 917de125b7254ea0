"""``pinproof judge``: verdicts about a saved run, on any machine."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.bundles import handed_on
from toolkit.cli.common import coloured, json_option, print_json, say_line, verbose_option
from toolkit.cli.ending import leave
from toolkit.cli.saved import judged_again
from toolkit.cli.sessions import is_session, judged_session, located, opened
from toolkit.model.result import Result, make_result
from toolkit.report.result import result_data
from toolkit.report.session_formats import render_session
from toolkit.report.table import render_table
from toolkit.sources.kubelet.evidence import RULES, evidence_of
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import read_capture
from toolkit.text.names import printable
from toolkit.verbs import VERBS
from validators.registry import judge, rule_named


@click.command("judge", short_help=VERBS["judge"].does)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option(
    "--capture", type=click.Path(path_type=Path), help="Judge a capture of a kubelet's node instead of a run."
)
@click.option(
    "--allowed-signers",
    "allowed",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Verify a bundle first: one of these must have signed it (a file as ssh-keygen -Y verify takes it).",
)
@click.option("--identity", metavar="WHO", help="With --allowed-signers: this one of them.")
@verbose_option
@json_option
def command(
    run: Path | None, capture: Path | None, allowed: Path | None, identity: str | None, verbose: bool, as_json: bool
) -> None:
    """Judge the claims and the evidence of RUN; needs no root and changes nothing. RUN is the directory of a run or of
    a session, a packed run, a bundle, or the name of one that is saved where runs are by default.

    Saved verdicts are not trusted: where they differ from the evidence, that is reported on standard error. Claims
    that evidence or result name and claims.json lacks are undecided, as windows that are missing are, and so is a run
    whose files, or whose windows, are not of one run.

    The files of a bundle must be those of its manifest, and with --allowed-signers its signature that of one of them:
    else nothing is judged. Without that option a bundle is judged, and reported as not verified.

    Exit code: 0 all passed or skipped, 1 something failed, 2 the run cannot be read, 3 something is undecided.
    """
    if run is not None and capture is None:
        with handed_on(located(run), allowed, identity) as place:
            if is_session(place):
                judged = judged_session(place)
                click.echo(render_session(judged, "json" if as_json else "table", verbose=verbose), nl=False)
                leave(judged.outcome)
            with opened(place) as folder:
                result = judged_again(folder).result
    elif allowed is not None or identity is not None:
        raise click.UsageError("--allowed-signers and --identity are for a bundle")
    elif capture is not None and run is None:
        result = _judged_capture(capture)
    else:
        raise click.UsageError("give a RUN or --capture")
    if as_json:
        print_json(result_data(result))
    else:
        click.echo(coloured(render_table(result, verbose=verbose)), nl=False)
    leave(result.outcome)


def _judged_capture(path: Path) -> Result:
    """Judge by the rules that one moment can answer; what is not known of the node is reported on standard error."""
    reading = read_capture(path)
    node = node_claims(reading)
    for part in node.missing:
        say_line(f"pinproof: not known: {printable(part.part)}: {printable(part.reason)}", err=True)
    claims, evidence = evidence_of(reading, node)
    return make_result(evidence, judge(claims, evidence, [rule_named(name) for name in RULES]), unknown=None)
