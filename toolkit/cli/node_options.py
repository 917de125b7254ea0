"""The options of verbs that read a live kubelet's node: where it keeps what it says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from toolkit.cli.common import say_line
from toolkit.model.names import printable
from toolkit.model.node_reading import MissingPart
from toolkit.sources.kubelet.places import CGROUP_ROOT, LOGS, PROC, SYS, Places

DIRECTORY = click.Path(path_type=Path)


def _place(name: str, what: str, usual: str, *names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(name, *names, type=DIRECTORY, help=f"{what}. Default: {usual}, below --root.")


_OPTIONS = (
    click.option("--root", type=DIRECTORY, default=Path("/"), show_default=True, help="The node's root directory."),
    _place("--kubelet-root", "The kubelet's root directory", "the running kubelet's --root-dir, else /var/lib/kubelet"),
    _place("--cgroup-root", "Where cgroups are mounted", CGROUP_ROOT),
    _place("--proc", "The node's /proc", PROC),
    _place("--sys", "The node's /sys", SYS, "sysfs"),
    _place("--logs", "The containers' logs", LOGS),
    click.option(
        "--kubelet-metrics",
        "metrics",
        metavar="URL|FILE",
        help="Compare the kubelet's own metrics with its state file, e.g. https://127.0.0.1:10250/metrics.",
    ),
    click.option(
        "--kubelet-pods",
        "pods",
        metavar="URL|FILE",
        help="The kubelet's list of pods, e.g. https://127.0.0.1:10250/pods; not with watch. Default: its read-only "
        "port, if any.",
    ),
    click.option(
        "--kubelet-token",
        "--kubelet-metrics-token",
        "token",
        type=DIRECTORY,
        help="File with a bearer token for these addresses.",
    ),
    click.option(
        "--kubelet-ca",
        "--kubelet-metrics-ca",
        "authority",
        type=DIRECTORY,
        help="CA certificates (PEM) to verify their server with. Default: the system's; none on loopback.",
    ),
    click.option("--cri", metavar="ENDPOINT", help="The runtime's socket. Default: as the kubelet is configured."),
)


_OF_A_KUBELET = {
    "kubelet_root": "--kubelet-root",
    "logs": "--logs",
    "cri": "--cri",
    "metrics": "--kubelet-metrics",
    "pods": "--kubelet-pods",
    "token": "--kubelet-token",
    "authority": "--kubelet-ca",
}


def refuse_those_of_a_kubelet(places: Places) -> None:
    """Refuse the options that nothing but a kubelet's node is read with, where something else is: not in silence.

    :raises click.UsageError: names the first of them.
    """
    given = [option for name, option in _OF_A_KUBELET.items() if getattr(places, name) is not None]
    if given:
        raise click.UsageError(f"{given[0]} is for --kubelet")


def node_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options, as one argument ``places``."""

    @functools.wraps(command)
    def with_places(
        *,
        root: Path,
        kubelet_root: Path | None,
        cgroup_root: Path | None,
        proc: Path | None,
        sysfs: Path | None,
        logs: Path | None,
        cri: str | None,
        metrics: str | None,
        pods: str | None,
        token: Path | None,
        authority: Path | None,
        **others: Any,
    ) -> None:
        command(
            places=Places(
                root=root.absolute(),
                kubelet_root=kubelet_root,
                cgroup_root=cgroup_root,
                proc=proc,
                sys=sysfs,
                logs=logs,
                cri=cri,
                metrics=metrics,
                pods=pods,
                token=token,
                authority=authority,
            ),
            **others,
        )

    for option in reversed(_OPTIONS):
        with_places = option(with_places)
    return with_places


def say_missing(missing: Iterable[MissingPart]) -> None:
    """Print a line for each part that was not read, on standard error."""
    for part in missing:
        say_line(f"pinproof: not read: {printable(part.part)}: {printable(part.reason)}", err=True)
