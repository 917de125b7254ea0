"""The options of verbs that read claims from podman, docker, systemd or Slurm: a flag each, with a file if wanted.

That of Slurm takes its name of this node besides, where that is not the host's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from toolkit.cli.node_options import say_missing
from toolkit.errors import InputError
from toolkit.host import cgroupfs
from toolkit.model.claims import ClaimSet
from toolkit.sources import slurm
from toolkit.sources.gathered import hierarchy_of
from toolkit.sources.live_source import SourceReading
from toolkit.sources.places import Places
from toolkit.sources.registry import SOURCES, Source

ITSELF = "itself"
"""The value of such an option that has none."""

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What was asked for. :param where: a file or a socket; ``None``: the tool itself."""

    source: Source
    where: Path | None

    @property
    def option(self) -> str:
        """The option, for messages."""
        return f"--{self.source.name}"

    def read(self, places: Places) -> SourceReading:
        """Read it, and print a line for each part that is missing, on standard error."""
        reading = self.source.read(self.where, places)
        say_missing(reading.missing)
        return reading


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options, as one argument ``chosen``: what was asked for, all of it."""

    @functools.wraps(command)
    def with_sources(**words: Any) -> None:
        given = [(source, words.pop(source.name)) for source in SOURCES]
        command(chosen=tuple(_chosen(source, value) for source, value in given if value is not None), **words)

    wrapped: Callable[..., None] = with_sources
    for source in reversed(SOURCES):
        of_slurm = source.name == slurm.NAME
        wrapped = click.option(
            f"--{source.name}",
            is_flag=False,
            flag_value=ITSELF,
            metavar="[NODE@][FILE]" if of_slurm else "[FILE]",
            help=f"Read {source.title} from the tool itself, or from FILE: the output of `{source.prints}`"
            + (", or the tool's socket." if source.prints.endswith("inspect") else ".")
            + (" NODE: what Slurm calls this node. Default: the host's name, without its domain." if of_slurm else ""),
        )(wrapped)
    return wrapped


def _chosen(source: Source, value: str) -> Chosen:
    """Return what the value of a source's option asks for: itself or a file, of Slurm as the node before an ``@``."""
    node, at, rest = value.partition("@")
    if at and source.name == slurm.NAME and _NODE_NAME.fullmatch(node):
        source, value = replace(source, read=functools.partial(slurm.read, node=node)), rest or ITSELF
    return Chosen(source=source, where=None if value == ITSELF else Path(value))


def observed(claims: ClaimSet, places: Places) -> dict[str, str]:
    """Return the CPUs that each claim's cgroup gives now, where it can be read."""
    hierarchy = hierarchy_of(places.root)
    found = {}
    for claim in claims.claims if hierarchy is not None else ():
        assert hierarchy is not None
        try:
            cpus = cgroupfs.read_effective_cpus(hierarchy, claim.cgroup)
        except (InputError, OSError):
            continue
        if cpus is not None:
            found[claim.name] = str(cpus)
    return found
