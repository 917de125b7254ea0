"""The options of verbs that read a live kubelet's node: where it keeps what it says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from toolkit.cli.common import say_line
from toolkit.kubernetes.kubelet_version import series_of
from toolkit.model.node_reading import MissingPart
from toolkit.sources.places import CGROUP_ROOT, LOGS, PROC, SYS, Places
from toolkit.text.names import printable

DIRECTORY = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """One option.

    :param field: of :class:`Places`, and the argument's name. :param names: the first is the one that messages use.
    :param of_kubelet: nothing but a kubelet's node is read with it.
    """

    field: str
    names: tuple[str, ...]
    help: str
    metavar: str | None = None
    of_kubelet: bool = False

    def added_to(self, command: Callable[..., None]) -> Callable[..., None]:
        """Give a verb this option; without a metavar its value is a path."""
        kind = DIRECTORY if self.metavar is None else None
        add = click.option(*self.names, self.field, type=kind, metavar=self.metavar, help=self.help)
        return add(command)


def _place(field: str, name: str, what: str, usual: str, *, of_kubelet: bool = False) -> _Option:
    return _Option(field=field, names=(name,), help=f"{what}. Default: {usual}, below --root.", of_kubelet=of_kubelet)


_ROOT = click.option("--root", type=DIRECTORY, default=Path("/"), show_default=True, help="The node's root directory.")
_OPTIONS = (
    _place(
        *("kubelet_root", "--kubelet-root", "The kubelet's root directory"),
        "the running kubelet's --root-dir, else /var/lib/kubelet",
        of_kubelet=True,
    ),
    _place("cgroup_root", "--cgroup-root", "Where cgroups are mounted", CGROUP_ROOT),
    _place("proc", "--proc", "The node's /proc", PROC),
    _place("sys", "--sys", "The node's /sys", SYS),
    _place("logs", "--logs", "The containers' logs", LOGS, of_kubelet=True),
    _Option(
        field="metrics",
        names=("--kubelet-metrics",),
        metavar="URL|FILE",
        help="Compare the kubelet's own metrics with its state file, e.g. https://127.0.0.1:10250/metrics.",
        of_kubelet=True,
    ),
    _Option(
        field="version",
        names=("--kubelet-version",),
        metavar="VERSION",
        help="The kubelet's version, where nothing on the node can be asked for it.",
        of_kubelet=True,
    ),
    _Option(
        field="pods",
        names=("--kubelet-pods",),
        metavar="URL|FILE",
        help="The kubelet's list of pods, e.g. https://127.0.0.1:10250/pods. Default: its read-only port, if any.",
        of_kubelet=True,
    ),
    _Option(
        field="objects",
        names=("--cluster-objects",),
        help="File with BalloonsPolicies, TopologyAwarePolicies, NodeResourceTopologies and ResourceSlices, as kubectl "
        "get -o yaml prints them.",
        of_kubelet=True,
    ),
    _Option(
        field="token",
        names=("--kubelet-token",),
        help="File with a bearer token for these addresses.",
        of_kubelet=True,
    ),
    _Option(
        field="authority",
        names=("--kubelet-ca",),
        help="CA certificates (PEM) to verify their server with. Default: the system's; none on loopback.",
        of_kubelet=True,
    ),
    _Option(
        field="cri",
        names=("--cri",),
        metavar="ENDPOINT",
        help="The runtime's socket. Default: as the kubelet is configured.",
        of_kubelet=True,
    ),
)


def refuse_those_of_a_kubelet(places: Places) -> None:
    """Refuse the options that nothing but a kubelet's node is read with, where something else is: not in silence.

    :raises click.UsageError: names the first of them.
    """
    for option in _OPTIONS:
        if option.of_kubelet and getattr(places, option.field) is not None:
            raise click.UsageError(f"{option.names[0]} is for --kubelet")


def refuse_places(places: Places) -> None:
    """Refuse any place of a node where none is read.

    :raises click.UsageError: names it.
    """
    refuse_those_of_a_kubelet(places)
    other = next((option for option in _OPTIONS if getattr(places, option.field) is not None), None)
    if other is not None or places.root != Path("/"):
        raise click.UsageError(f"{'--root' if other is None else other.names[0]} is for --kubelet")


def node_options(command: Callable[..., None], without: Collection[str] = ()) -> Callable[..., None]:
    """Give a verb these options, as one argument ``places``. :param without: fields that it does not ask for."""
    asked = [option for option in _OPTIONS if option.field not in without]

    @functools.wraps(command)
    def with_places(root: Path, **words: Any) -> None:
        given = {option.field: words.pop(option.field) for option in asked}
        if given.get("version"):
            series_of(given["version"], "--kubelet-version")
        command(places=Places(root=root.absolute(), **given), **words)

    added: Callable[..., None] = with_places
    for option in reversed(asked):
        added = option.added_to(added)
    return _ROOT(added)


def say_missing(missing: Iterable[MissingPart]) -> None:
    """Print a line for each part that was not read, on standard error."""
    for part in missing:
        say_line(f"pinproof: not read: {printable(part.part)}: {printable(part.reason)}", err=True)
