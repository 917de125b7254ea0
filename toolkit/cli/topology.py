"""``pinproof topology``: what hardware is this."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.common import say
from toolkit.host.topology import read_topology
from toolkit.model.serde import to_json
from toolkit.report.topology_text import render_topology
from toolkit.verbs import VERBS


@click.command("topology", short_help=VERBS["topology"].does)
@click.option(
    "--sysroot",
    type=click.Path(path_type=Path),
    default=Path("/"),
    show_default=True,
    help="A directory with another machine's sys and proc.",
)
@click.option("--json", "as_json", is_flag=True, help="Print every field as JSON.")
def command(sysroot: Path, as_json: bool) -> None:
    """Show the hardware as the kernel reports it, and as the kubelet would discover it.

    Needs no root. CPU sets are in the kernel's list format. --json prints every field, CPU by CPU.
    """
    topology = read_topology(sysroot)
    if as_json:
        click.echo(to_json(topology, indent=2))
    else:
        say(render_topology(topology))
