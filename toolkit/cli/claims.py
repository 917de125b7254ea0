"""``pinproof claims``: what was promised on a machine by a kubelet, podman, docker, systemd, Slurm, or in a capture."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.common import json_option, print_json, say
from toolkit.cli.node_options import DIRECTORY, node_options, refuse_those_of_a_kubelet, say_missing
from toolkit.cli.source_options import Chosen, observed, source_options
from toolkit.errors import InputError
from toolkit.report.layout import table
from toolkit.sources.claims_yaml import claims_yaml
from toolkit.sources.kubelet.document import COLUMNS, claims_data, claims_rows
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import nothing, read_capture, read_live, says_anything
from toolkit.sources.places import Places
from toolkit.sources.reading_document import COLUMNS as SOURCE_COLUMNS
from toolkit.sources.reading_document import reading_data, reading_rows
from toolkit.verbs import VERBS


@click.command("claims", short_help=VERBS["claims"].does)
@click.option("--kubelet", is_flag=True, help="Read the kubelet of this machine.")
@click.option("--capture", type=DIRECTORY, help="Read a capture instead: a directory or a .tar.gz.")
@source_options
@node_options
@click.option(
    "--table",
    "as_table",
    is_flag=True,
    help="Print a table: what was promised, and what the cgroup and its threads have.",
)
@json_option
def command(
    kubelet: bool,
    capture: Path | None,
    chosen: tuple[Chosen, ...],
    places: Places,
    as_table: bool,
    as_json: bool,
) -> None:
    """Print what was promised to every container, unit or job, as a claims file for `pinproof watch --claims`.

    Reads a node's files and asks its sockets (container runtime, pod-resources). Reports on standard error what it
    could not read, and what is unknown because of that. Changes nothing.

    Exit code: 0 claims printed, 2 no source can be read.
    """
    if kubelet + (capture is not None) + len(chosen) != 1:
        raise click.UsageError("give one of --kubelet, --capture, --podman, --docker, --systemd and --slurm")
    if not kubelet:
        refuse_those_of_a_kubelet(places)
    if chosen:
        _print_source(chosen[0], places, as_table=as_table, as_json=as_json)
        return
    reading = read_capture(capture) if capture is not None else read_live(places)
    if capture is None and not says_anything(reading):
        raise InputError(str(places.root), nothing(reading), "a kubelet's node")
    node = node_claims(reading)
    say_missing(node.missing)
    if as_json:
        print_json(claims_data(node))
    elif as_table:
        say(table(claims_rows(node), COLUMNS))
    else:
        say(claims_yaml(node.claims))


def _print_source(chosen: Chosen, places: Places, *, as_table: bool, as_json: bool) -> None:
    reading = chosen.read(places)
    held = observed(reading.claims, places)
    if as_json:
        print_json(reading_data(chosen.source.name, reading, held))
    elif as_table:
        say(table(reading_rows(reading, held), SOURCE_COLUMNS))
    else:
        say(claims_yaml(reading.claims))
