"""``pinproof claims``: what was promised on a node, from its own files or from a capture of it."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.common import json_option, print_json, say, say_line
from toolkit.errors import InputError
from toolkit.model.names import printable
from toolkit.report.layout import table
from toolkit.sources.kubelet.bundle import read_capture
from toolkit.sources.kubelet.claims import node_claims
from toolkit.sources.kubelet.document import COLUMNS, claims_data, claims_rows, claims_yaml
from toolkit.sources.kubelet.live import read_live

DIRECTORY = click.Path(path_type=Path)


@click.command("claims", short_help="Print the claims of a kubelet's node or of a capture.")
@click.option("--kubelet", is_flag=True, help="Read the kubelet of this machine.")
@click.option("--capture", type=DIRECTORY, help="Read a capture instead: a folder or a .tar.gz.")
@click.option(
    "--kubelet-root",
    type=DIRECTORY,
    default=Path("/var/lib/kubelet"),
    show_default=True,
    help="The kubelet's root directory.",
)
@click.option(
    "--cgroup-root",
    type=DIRECTORY,
    default=Path("/sys/fs/cgroup"),
    show_default=True,
    help="Where cgroups are mounted.",
)
@click.option("--proc", type=DIRECTORY, default=Path("/proc"), show_default=True, help="The node's /proc.")
@click.option("--sys", "sysfs", type=DIRECTORY, default=Path("/sys"), show_default=True, help="The node's /sys.")
@click.option(
    "--logs", type=DIRECTORY, default=Path("/var/log/containers"), show_default=True, help="The containers' logs."
)
@click.option(
    "--table",
    "as_table",
    is_flag=True,
    help="Print a table: what the state file promises, the cgroup grants and the threads have.",
)
@json_option
def command(
    kubelet: bool,
    capture: Path | None,
    kubelet_root: Path,
    cgroup_root: Path,
    proc: Path,
    sysfs: Path,
    logs: Path,
    as_table: bool,
    as_json: bool,
) -> None:
    """Print what was promised to every container, as a claims file for `pinproof watch --claims`.

    What could not be read, and what is unknown because of that, is reported on standard error. Changes nothing.

    Exit code: 0 claims printed, 2 no source can be read.
    """
    if kubelet == (capture is not None):
        raise click.UsageError("give one of --kubelet and --capture")
    reading = read_capture(capture) if capture is not None else read_live(kubelet_root, cgroup_root, proc, logs, sysfs)
    if reading.cpu_state is None and reading.cgroups is None and reading.config is None:
        raise InputError(
            str(kubelet_root), "no state file, no configuration and no kubepods cgroup", "a kubelet's node"
        )
    node = node_claims(reading)
    for part in node.missing:
        say_line(f"pinproof: not read: {printable(part.part)}: {printable(part.reason)}", err=True)
    if as_json:
        print_json(claims_data(node))
    elif as_table:
        say(table(claims_rows(node), COLUMNS) + "\n")
    else:
        say(claims_yaml(node))
