"""The options of a watch that choose pods of a kubelet's node: by namespace and by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from toolkit.sources.chosen_pods import Choice


def pod_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options, as one argument ``choice``."""

    @functools.wraps(command)
    def with_choice(namespaces: tuple[str, ...], pods: tuple[str, ...], **words: Any) -> None:
        command(choice=Choice(namespaces=namespaces, pods=pods), **words)

    made: Callable[..., None] = with_choice
    for name, field, what, such in (
        ("--pod", "pods", "of this name", "`web-*`"),
        ("--namespace", "namespaces", "of this namespace", "`shop`, `team-*`"),
    ):
        made = click.option(
            *(name, field),
            multiple=True,
            metavar="PATTERN",
            help=f"With --kubelet: watch the pods {what} only ({such}); may be given several times.",
        )(made)
    return made
