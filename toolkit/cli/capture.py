"""``pinproof capture``: what a kubelet's node says about itself at this moment, as one file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from toolkit.cli.common import json_option, print_json, say
from toolkit.cli.node_options import node_options, say_missing
from toolkit.disk import why_not_writable, write_atomically, write_output
from toolkit.errors import InputError
from toolkit.sources.kubelet.files.capture import packed
from toolkit.sources.kubelet.files.live import SCHEMA, node_files
from toolkit.sources.kubelet.promises.node import node_claims
from toolkit.sources.kubelet.reading import nothing, reading_of, says_anything
from toolkit.sources.places import Places
from toolkit.text.names import from_path, printable
from toolkit.verbs import VERBS


@click.command("capture", short_help=VERBS["capture"].does)
@click.argument("output", metavar="OUT.tar.gz", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace OUT.tar.gz if it exists.")
@node_options
@json_option
def command(output: Path, force: bool, places: Places, as_json: bool) -> None:
    """Write state files, configuration, cgroups, thread masks and the answers of the sockets to OUT.tar.gz.

    Read it with `pinproof claims --capture` and `pinproof judge --capture`, on any machine. Environment, arguments,
    annotations and volumes of pods are left out. What could not be read is reported on standard error. Changes nothing.

    Exit code: 0 written, 2 nothing to read or no place to write.
    """
    if os.path.lexists(output) and not force:
        raise InputError(str(output), "it exists", "a new file, or --force")
    if os.path.exists(output) and not os.path.isfile(output):  # noqa: PTH110, PTH113 a name too long is none
        # A file in the place of a pipe or of /dev/null is no capture that anything asked for.
        raise InputError(str(output), "not a regular file", "a new file, or one that --force may replace")
    problem = why_not_writable(output.parent, exists=True)
    if problem is not None:
        raise problem
    files = node_files(places)
    reading = reading_of(files)
    if not says_anything(reading):
        raise InputError(str(places.root), nothing(reading), "a kubelet's node")
    node = node_claims(reading)
    data = packed(files, int(time.time()))
    if force:
        write_output(output, data)
    else:
        write_atomically(output, data, replace=False)
    say_missing(node.missing)
    if as_json:
        missing = [{"part": part.part, "reason": part.reason} for part in node.missing]
        print_json(
            {
                "schema": SCHEMA,
                "path": from_path(output),
                "bytes": len(data),
                "files": len(files),
                "subjects": len(node.promises),
                "missing": missing,
            }
        )
    else:
        counts = f"{len(files)} files, {len(node.promises)} containers and sandboxes, {len(data)} bytes"
        say(f"{printable(from_path(output))}: {counts}")
