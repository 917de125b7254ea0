"""The option that names a kubelet's drop-in directory, of every verb that takes its configuration file."""

from __future__ import annotations

from pathlib import Path

import click

config_dir_option = click.option(
    "--config-dir",
    type=click.Path(path_type=Path),
    help="The kubelet's drop-in directory: its *.conf files go over --kubelet-config.",
)


def check_config_dir(config: Path | None, directory: Path | None) -> None:
    """Refuse a drop-in directory without a file that it goes over.

    :raises click.UsageError: that.
    """
    if directory is not None and config is None:
        raise click.UsageError("--config-dir goes with --kubelet-config")
