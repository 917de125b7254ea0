"""The options of verbs that read claims from podman, docker, systemd or Slurm: a flag each, with a file if wanted.

And what Slurm calls this node, where that is not the host's name.
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
from toolkit.sources.kubelet.places import Places
from toolkit.sources.live_source import SourceReading
from toolkit.sources.registry import BY_NAME, SOURCES, Source
from toolkit.text.names import printable

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
    def with_sources(slurm_node: str | None, **words: Any) -> None:
        if slurm_node is not None and words[slurm.NAME] is None:
            raise click.UsageError(f"{slurm.NODE_OPTION} is for --{slurm.NAME}")
        chosen = tuple(
            Chosen(source=_source(name, slurm_node), where=None if value == ITSELF else Path(value))
            for name, value in [(source.name, words.pop(source.name)) for source in SOURCES]
            if value is not None
        )
        command(chosen=chosen, **words)

    wrapped: Callable[..., None] = click.option(
        slurm.NODE_OPTION,
        metavar="NAME",
        callback=_checked_name,
        help="This node's name in Slurm (NodeName). Default: the host's name, without its domain.",
    )(with_sources)
    for source in reversed(SOURCES):
        wrapped = click.option(
            f"--{source.name}",
            is_flag=False,
            flag_value=ITSELF,
            metavar="[FILE]",
            help=f"Read {source.title} from the tool itself, or from FILE: the output of `{source.prints}`"
            + (", or the tool's socket." if source.prints.endswith("inspect") else "."),
        )(wrapped)
    return wrapped


def _source(name: str, slurm_node: str | None) -> Source:
    """Return a source; that of Slurm asks for the jobs of the node that was named."""
    source = BY_NAME[name]
    if slurm_node is None or name != slurm.NAME:
        return source
    return replace(source, read=functools.partial(slurm.read, node=slurm_node))


def _checked_name(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is not None and not _NODE_NAME.fullmatch(name):
        raise click.BadParameter(f"'{printable(name)}' is no node's name: letters, digits, '.', '_' and '-'")
    return name


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
